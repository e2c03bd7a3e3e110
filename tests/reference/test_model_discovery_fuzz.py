"""Discovery of damaged trees: whatever is missing or garbled, there is an answer."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

import topologies
from reference import DiscoveryError, MachineInfo, NotModelled, discover
from reference.cpuset import MAX_CPU

RELEASES = ["1.8", "1.14", "1.16.0", "1.18", "1.19.0", "1.19", "1.20.4", "1.22", "1.28", "1.29",
            "1.32", "1.36", "1.37"]  # fmt: skip
MACHINES = ["2s-2n-4c-smt2-mem1", "4s-1n-4c-smt1", "1s-2n-8c-smt2-l3x2-off3"]
NASTY = ["", "\n", "\0", "0\0", "-1\n", "+1\n", "1\n", "0-", "0-1-2\n", "9-3\n", "0,,1\n", "x\n",
         "36M\n", "4294967296\n", "9" * 25, "9" * 5000, "\x85 7\x1f\n", "ffffffffffffffffffff\n",
         ".", "..", "/", "cpu0", "../../node/node0", "MemTotal: 1 kB", "\ud800"]  # fmt: skip
DELETED = None


@cache
def described(name: str) -> dict[str, str]:
    return dict(topologies.machine(name).tree)


def damaged_texts(text: str) -> st.SearchStrategy[str | None]:
    """No file, another text, or the same one cut or with a piece put in."""
    places = st.integers(0, len(text))
    return st.one_of(
        st.just(DELETED),
        st.sampled_from(NASTY),
        st.text(max_size=20),
        places.map(lambda end: text[:end]),
        st.tuples(places, st.sampled_from(NASTY)).map(
            lambda put: text[: put[0]] + put[1] + text[put[0] :]
        ),
    )


@st.composite
def damaged_trees(draw: st.DrawFn) -> dict[str, str]:
    files = dict(described(draw(st.sampled_from(MACHINES))))
    paths = sorted(files)
    important = [path for path in paths if path.endswith(("online", "list", "_id", "/cpuinfo"))]
    for path in draw(st.lists(st.sampled_from(paths) | st.sampled_from(important), max_size=8)):
        text = draw(damaged_texts(files.get(path, "")))
        if text is DELETED:
            files.pop(path, None)
        elif draw(st.integers(0, 9)):
            files[path] = text
        else:  # a folder stands where a file was
            files.pop(path, None)
            files[f"{path}/{draw(st.sampled_from(['cpu1', 'index0', 'node7', 'x-y']))}"] = text
    gone = draw(st.sampled_from(["", "", "", "sys/devices/system/node/", "proc/", "topology/"]))
    return {path: text for path, text in files.items() if not gone or gone not in path}


def digits(text: str) -> list[str]:
    return re.findall("[0-9]+", text)


@given(
    files=damaged_trees(),
    release=st.sampled_from(RELEASES),
    architecture=st.sampled_from([None, "x86_64", "aarch64", "s390x"]),
)
def test_a_damaged_tree_is_a_machine_or_the_kubelets_refusal(
    files: dict[str, str], release: str, architecture: str | None
) -> None:
    try:
        info = discover(files, release=release, architecture=architecture)
    except NotModelled:
        # Only for a number beyond any machine's, which would cost its size in memory.
        assert any(len(number) > 6 for text in [*files, *files.values()] for number in digits(text))
        return
    assert isinstance(info, MachineInfo)
    assert info == discover(files, release=release, architecture=architecture)
    assert not info.fault or not info.nodes
    try:
        topology = info.cpu_topology()
    except DiscoveryError:
        return
    assert all(0 <= cpu <= MAX_CPU for cpu in topology.details)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("release", RELEASES)
def test_each_file_may_be_missing(name: str, release: str) -> None:
    files = described(name)
    for path in [
        path for path in files if "cpu1/" in path or "node0/" in path or "cpu" not in path
    ]:
        info = discover({p: text for p, text in files.items() if p != path}, release=release)
        assert info.num_cores >= -1
