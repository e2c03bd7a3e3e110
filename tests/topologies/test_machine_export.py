"""What is exported is read by lstopo and lscpu, whoever captured it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.topologies.conftest import printed_by
from topologies import Tree, describe, write
from topologies.exporting import readable

CPU = "sys/devices/system/cpu"
CPUINFO = "proc/cpuinfo"
NAME = "2s-2n-4c-smt2-off3"
WHOLE = describe(NAME).tree
BARE = Tree({path: text for path, text in WHOLE.items() if path != CPUINFO})
BOOKS = Tree({**BARE, **{f"{CPU}/cpu{cpu}/topology/book_id": "0\n" for cpu in range(8)}})


def test_a_machine_with_a_cpuinfo_stays_as_it_is() -> None:
    assert readable(WHOLE) is WHOLE
    nothing = Tree({})
    assert readable(nothing) is nothing


@pytest.mark.parametrize(
    ("tree", "first"),
    [(BARE, "processor\t: 0\n"), (BOOKS, "vendor_id       : IBM/S390\n# processors    : 7\n")],
)
def test_a_made_up_cpuinfo_numbers_the_online_cpus(tree: Tree, first: str, tmp_path: Path) -> None:
    made = readable(tree)
    assert CPUINFO not in tree
    assert {path: text for path, text in made.items() if path != CPUINFO} == dict(tree)
    assert made[CPUINFO].startswith(first)
    write(made, tmp_path / "made")
    table = printed_by("lscpu", "--sysroot", tmp_path / "made", "-p=CPU,NODE")
    write(WHOLE, tmp_path / "whole")
    assert table == printed_by("lscpu", "--sysroot", tmp_path / "whole", "-p=CPU,NODE")
    assert [line.partition(",")[0] for line in table.splitlines() if line[0] != "#"] == [
        "0", "1", "2", "4", "5", "6", "7",
    ]  # fmt: skip


@pytest.mark.parametrize("tree", [BARE, BOOKS])
def test_lstopo_counts_the_cpus_of_an_export(tree: Tree, tmp_path: Path) -> None:
    write(readable(tree), tmp_path / "made")
    text = printed_by("lstopo-no-graphics", "--input", tmp_path / "made", "--of", "xml")
    kinds = [one.get("type") for one in ElementTree.fromstring(text).iter("object")]
    assert (kinds.count("PU"), kinds.count("Package")) == (7, 2)
