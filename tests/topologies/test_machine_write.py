"""Trees laid out on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from topologies import Link, Tree, UnwritableMachine, describe, read_tree, write


def test_files_folders_and_links(tmp_path: Path) -> None:
    machine = describe("2s-2n-8c-smt2-mem1-off5")
    write(machine.tree, tmp_path / "new" / "place")
    place = tmp_path / "new" / "place"
    assert (place / "sys/devices/system/cpu/online").read_text() == "0-4,6-15\n"
    link = place / "sys/devices/system/node/node1/cpu15"
    assert link.readlink() == Path("../../cpu/cpu15")
    assert (link / "topology/core_id").read_text() == "3\n", "links lead where they should"
    assert dict(read_tree(place)) == dict(machine.tree)
    assert dict(read_tree(place.parent)) == dict(machine.tree), "the only folder that has sys"


def test_bytes_that_are_no_text_are_written_as_they_were(tmp_path: Path) -> None:
    write(Tree({"proc/cpuinfo": "a\udcff\0"}), tmp_path)
    assert (tmp_path / "proc/cpuinfo").read_bytes() == b"a\xff\0"


def test_an_empty_folder_will_do_and_a_full_one_will_not(tmp_path: Path) -> None:
    tree = describe("1s-1n-1c-smt1").tree
    write(tree, tmp_path)
    with pytest.raises(UnwritableMachine, match="it is not empty"):
        write(tree, tmp_path)
    with pytest.raises(UnwritableMachine, match="Not a directory"):
        write(tree, tmp_path / "proc/cpuinfo/below")


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"../escaped": "x"}, r"`\.\.`"),
        ({"a/../../escaped": "x"}, r"`\.\.`"),
        ({"/escaped": "x"}, "absolute"),
        ({"a//b": "x"}, "not plain"),
        ({"./a": "x"}, "not plain"),
        ({"": "x"}, "not plain"),
        ({"a\0b": "x"}, "NUL"),
        ({"a": Link("/etc")}, "a link out of the tree"),
        ({"a/b": Link("../../escaped")}, "a link out of the tree"),
        ({"a": Link("b/../../escaped")}, "a link out of the tree"),
        ({"a": Link("b"), "a/c": "x"}, "a is a link and a folder"),
        ({"a": "x", "a/c": "x"}, "a is a file and a folder"),
    ],
)
def test_nothing_is_written_outside(tmp_path: Path, entries: dict[str, str], reason: str) -> None:
    place = tmp_path / "inner" / "place"
    place.mkdir(parents=True)
    with pytest.raises(UnwritableMachine, match=reason) as raised:
        write(Tree(entries), place)
    assert "\n" not in str(raised.value)
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "inner", place]


def test_files_of_one_text_may_be_one_file(tmp_path: Path) -> None:
    tree = describe("2s-2n-8c-smt2").tree
    write(tree, tmp_path, share=True)
    assert dict(read_tree(tmp_path)) == dict(tree)
    files = [one for one in tmp_path.rglob("*") if one.is_file() and not one.is_symlink()]
    texts = {one.read_bytes() for one in files}
    assert len({one.stat().st_ino for one in files}) == len(texts) < len(files)
