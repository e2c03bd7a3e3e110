"""Trees in memory: whatever is missing or garbled, discovery has an answer; and one is looked at as
a file system would be."""

from __future__ import annotations

import re
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import topologies
from reference import DiscoveryError, MachineInfo, NotModelled, discover
from reference.cpuset import MAX_CPU
from reference.machine.sysfs import SysFS, Unreadable

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


@cache
def paths_of(name: str) -> st.SearchStrategy[list[str]]:
    """Some paths of the machine, and often those that matter."""
    paths = sorted(described(name))
    important = [path for path in paths if path.endswith(("online", "list", "_id", "/cpuinfo"))]
    return st.lists(st.sampled_from(paths) | st.sampled_from(important), max_size=8)


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
    name = draw(st.sampled_from(MACHINES))
    files = dict(described(name))
    for path in draw(paths_of(name)):
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


@pytest.mark.parametrize(
    ("name", "release"),
    # All machines have files of the same kinds; the last one has caches and an offline CPU.
    [*product(MACHINES[:2], ["1.18", "1.37"]), *product(MACHINES[2:], RELEASES)],
)
def test_each_file_may_be_missing(name: str, release: str) -> None:
    files = described(name)
    for path in [
        path for path in files if "cpu1/" in path or "node0/" in path or "cpu" not in path
    ]:
        info = discover({p: text for p, text in files.items() if p != path}, release=release)
        assert info.num_cores >= -1


# -- a tree as a file system -----------------------------------------------------------------------


CPU, NODE = "sys/devices/system/cpu", "sys/devices/system/node"
# Names on either side of the slash in the order of characters, and one that is no text.
PARTS = st.sampled_from(["cpu1", "cpu1-", "cpu1.", "cpu10", "cpu1a", "a", "é", "\udc80"])
PATHS = st.builds(
    lambda root, parts: "/".join([root, *parts]),
    st.sampled_from([CPU, NODE]),
    st.lists(PARTS, min_size=1, max_size=3),
)


@given(st.sets(PATHS, max_size=12))
def test_a_folder_has_the_names_that_paths_begin_with(paths: set[str]) -> None:
    sysfs = SysFS(dict.fromkeys(paths, "1"))
    folders = {CPU, NODE}
    for path in paths:
        parts = path.split("/")
        folders |= {"/".join(parts[:end]) for end in range(5, len(parts))}
    for folder in folders:
        below = {path[len(folder) + 1 :] for path in paths if path.startswith(f"{folder}/")}
        names = {rest.split("/")[0] for rest in below}
        assert sysfs.names(folder) == sorted(
            names, key=lambda name: name.encode("utf-8", "surrogateescape")
        )
    for path in paths - folders:
        assert sysfs.names(path) is None
        assert sysfs.read(path) == "1"


def test_a_folder_is_read_through_a_link_and_is_no_file() -> None:
    sysfs = SysFS(
        {
            f"{CPU}/cpu3/topology/core_id": "7\n",
            f"{NODE}/node0/cpu3": "../../cpu/cpu3",
            f"{NODE}/node0/cpu4": "../../cpu/cpu4",
        }
    )
    assert sysfs.folder(f"{NODE}/node0/cpu3") == f"{CPU}/cpu3"
    assert sysfs.names(f"{NODE}/node0/cpu3") == ["topology"]
    assert sysfs.read(f"{NODE}/node0/cpu3/topology/core_id") == "7\n"
    assert sysfs.read(f"{NODE}/node0/cpu4/topology/core_id") is None
    with pytest.raises(Unreadable, match=r"read /.*/cpu3/topology: is a directory"):
        sysfs.read(f"{NODE}/node0/cpu3/topology")


def test_a_link_to_itself_ends_as_in_linux() -> None:
    sysfs = SysFS({f"{CPU}/cpu0": "cpu0"})
    with pytest.raises(
        Unreadable, match=r"open /.*/cpu0/online: too many levels of symbolic links"
    ):
        sysfs.read(f"{CPU}/cpu0/online")


def test_a_link_out_of_the_tree_leads_nowhere() -> None:
    sysfs = SysFS({f"{CPU}/cpu0": "../../../../../etc"})
    assert sysfs.resolve(f"{CPU}/cpu0/passwd") is None
    assert sysfs.folder(f"{CPU}/cpu0") == f"{CPU}/cpu0"


def test_what_is_outside_of_cpus_and_nodes_has_no_folders() -> None:
    sysfs = SysFS({"proc/cpuinfo": "", "sys/devices/system/memory/block_size": "1"})
    assert sysfs.names("proc") is None
    assert sysfs.names("sys/devices/system/memory") is None
    assert sysfs.names(CPU) == []
