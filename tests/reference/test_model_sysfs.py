"""A tree in memory is looked at as a file system would be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.machine.sysfs import SysFS, Unreadable

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
