"""Broken machines: firmware, kernels and packers at their worst. Whatever a tree holds, reading,
completing, linting, shrinking, drawing and packing it gives a result or a documented error."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reference import DiscoveryError, NotModelled, discover
from topologies import (
    Completed,
    Link,
    MachineError,
    Tree,
    complete,
    describe,
    drawing,
    lint,
    machine,
    pack,
    read_tree,
    without_cpus,
    write,
)

CPU: Final = "sys/devices/system/cpu"
WHOLE: Final = dict(machine("qemu-2s-2n-8c-smt1-mem1").tree)
#: Of few files, to lay out.
SMALL: Final = dict(machine("qemu-1s-1n-1c-smt1").tree)

#: What files of a machine have been seen to hold, and what nobody has seen yet.
TEXTS: Final = st.one_of(
    st.sampled_from([
        "", "\n", "\0", "-1\n", "0\r\n", "0-3\n\0", "3-0\n", "0-\n", "(null)\n", "65535\n",
        "ffffffff,ffffffff\n", "0-1048576\n", "0-99999999999\n", "9" * 400, "f" * 5000, "1,1,1\n",
        "é\n", "\udcff\n", "0,2-3\n", "32K\n", "Unified\n", "10 20 x\n", "٣\n",
    ]),
    st.text(max_size=40),
)  # fmt: skip
ENDINGS: Final = st.sampled_from(["/core_id", "online", "list", "cpuinfo"])
LINKS: Final = st.sampled_from([".", "..", "../../cpu/cpu0", "../../cpu/cpu99", "cpu0", "x/y"])
NEW_PATHS: Final = st.sampled_from([
    f"{CPU}/cpu99/topology/core_id", f"{CPU}/cpu9999999/online", f"{CPU}/cpux/online",
    f"{CPU}/cpu٣/online", "sys/devices/system/node/node9/cpulist",
    "sys/devices/system/node/node99999/cpu0", "sys/devices/system/node/nodex/cpumap",
    "sys/devices/system/node/node0/cpu7/topology/core_id", f"{CPU}/cpu0/cache/index9/level",
])  # fmt: skip


@st.composite
def broken(draw: st.DrawFn, whole: Mapping[str, str]) -> Tree:
    """A machine with files taken away, garbled, made links, and added."""
    entries, paths = dict(whole), st.sampled_from(sorted(whole))
    for path in draw(st.lists(paths, max_size=12)):
        entries.pop(path, None)
    for name in draw(st.lists(ENDINGS, max_size=2)):
        entries = {path: text for path, text in entries.items() if not path.endswith(name)}
    for path in draw(st.lists(paths | NEW_PATHS, max_size=12)):
        entries[path] = draw(TEXTS)
    for path in draw(st.lists(paths, max_size=4)):
        entries[path] = Link(draw(LINKS))
    return Tree(entries)


def attempt(action: Callable[[], object], *expected: type[Exception]) -> object:
    """What comes of it, or ``None`` for a documented error of one line."""
    try:
        return action()
    except expected as error:
        said = str(error)
    assert said
    assert "\n" not in said
    return None


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(tree=broken(WHOLE))
def test_a_broken_machine_is_a_finding(tree: Tree) -> None:
    assert all(finding.path and finding.message for finding in lint(tree))
    done = attempt(lambda: complete(tree), MachineError)
    assert done is None or isinstance(done, Completed)
    if done is not None:
        assert all("\n" not in str(note) for note in done.notes)
        assert dict(complete(done.tree).tree) == dict(done.tree), "nothing is left to complete"
    for one in (tree, done.tree if done else tree):
        attempt(partial(seen, one), DiscoveryError, NotModelled)
        attempt(partial(without_cpus, one, [1]), MachineError)


def seen(tree: Tree) -> str:
    """As a kubelet finds it, drawn."""
    return drawing.svg(discover(tree).cpu_topology().details)


@settings(deadline=None, max_examples=25)
@given(tree=broken(SMALL))
def test_a_broken_machine_is_packed_and_laid_out_as_it_is(tree: Tree) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "m.tar"
        if attempt(partial(pack, tree, path), MachineError) is None and not path.exists():
            attempt(partial(write, tree, path.with_suffix("")), MachineError)
            assert not path.with_suffix("").exists()
            return
        write(tree, path.with_suffix(""))
        assert dict(read_tree(path)) == dict(tree)
        assert dict(read_tree(path.with_suffix(""))) == dict(tree)


def test_a_half_capture_is_told_what_it_lacks() -> None:
    """A folder of which half was copied is completed."""
    whole = describe("2s-2n-4c-smt2").tree
    half = Tree({path: text for path, text in whole.items() if "/cpu3/" not in path})
    notes = [str(note) for note in complete(half).notes]
    assert any("proc/cpuinfo" in note and "cpu{3}" in note for note in notes), notes
