"""A capture on disk is what the catalogue reads."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import topologies
from topologies.capturing import BadTarget, Capture, CaptureError, check_place, write_capture


@pytest.fixture
def made() -> Capture:
    tree = topologies.load("1s-1n-2c-smt2")
    return Capture(tree=tree, source="captured over SSH, Linux 6.1.0, x86_64", kernel="6.1.0")


def test_archive_and_description_are_read_back(made: Capture, tmp_path: Path) -> None:
    path = write_capture(made, tmp_path / "node7.tar.xz", why='It says "no" \\ \x7f \n.')
    assert path == tmp_path / "node7.tar.xz"
    machine = topologies.machine(path)
    assert dict(machine.tree) == dict(made.tree)
    said = tomllib.loads((tmp_path / "node7.toml").read_text("utf-8"))
    assert said == {
        "shape": "",
        "why": 'It says "no" \\ \x7f \n.',
        "source": "captured over SSH, Linux 6.1.0, x86_64",
        "digest": machine.digest,
    }
    assert sorted(one.name for one in tmp_path.iterdir()) == ["node7.tar.xz", "node7.toml"]


def test_the_suffix_is_added_and_equal_trees_have_equal_bytes(
    made: Capture, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    one = write_capture(made, tmp_path / "node7")
    other = write_capture(made, tmp_path / "other" / "node7")
    assert one.name == "node7.tar.xz"
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("there", ["node7.tar.xz", "node7.toml"])
def test_nothing_is_overwritten_without_force(there: str, made: Capture, tmp_path: Path) -> None:
    (tmp_path / there).write_text("mine")
    with pytest.raises(BadTarget, match="it is there already; --force replaces it"):
        write_capture(made, tmp_path / "node7")
    assert [one.name for one in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"
    write_capture(made, tmp_path / "node7", force=True)
    assert dict(topologies.load(tmp_path / "node7.tar.xz")) == dict(made.tree)


def test_places_that_cannot_be(made: Capture, tmp_path: Path) -> None:
    with pytest.raises(BadTarget, match="there is no such folder"):
        check_place(tmp_path / "nothing" / "node7")
    with pytest.raises(BadTarget, match="a capture needs a name"):
        check_place(tmp_path / ".tar.xz")
    with pytest.raises(CaptureError, match="cannot write"):
        write_capture(made, Path("/proc/node7"))
