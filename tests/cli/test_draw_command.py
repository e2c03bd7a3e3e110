"""``pinproof draw`` as a user runs it: who holds what, and what cannot be drawn."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from tests.cli.running import pinproof
from topologies import Tree, describe, pack

MACHINE = "1s-1n-4c-smt2"
#: A checksum of 0 is not compared by any kubelet.
STATE = json.dumps(
    {
        "policyName": "static",
        "defaultCpuSet": "0,3-4,6-7",
        "entries": {"uid-1": {"app": "1,5"}, "uid-2": {"\x1b[31mred": "2"}},
        "checksum": 0,
    }
)


def test_who_holds_what_comes_from_the_command_line() -> None:
    """One owner may be named twice; each has a letter, so that colours are not all there is."""
    done = pinproof("draw", MACHINE, "--held", "web/app=1", "--held", "db/a=b=2,6",
                    "--held", "web/app=5", "--reserved", "0,4", status=0)  # fmt: skip
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert "0R 4R   1A 5A   2B 6B   3  7" in lines
    assert lines[-3:] == ["A  web/app: 1,5 (2)", "B  db/a=b: 2,6 (2)", "R  reserved: 0,4 (2)"]


def test_who_holds_what_comes_from_a_state_file(tmp_path: Path) -> None:
    path = tmp_path / "cpu_manager_state"
    path.write_text(STATE)
    done = pinproof("draw", MACHINE, "--state", str(path), "--reserved", "0,4", status=0)
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert "0R 4R   1A 5A   2B 6S   3S 7S" in lines
    assert lines[-4:] == [
        "A  uid-1/app: 1,5 (2)",
        "B  uid-2/\ufffd[31mred: 2 (1)",
        "R  reserved: 0,4 (2)",
        "S  shared pool: 3,6-7 (3)",
    ]
    target = tmp_path / "picture.svg"
    done = pinproof("draw", MACHINE, "--state", str(path), "--svg", str(target))
    assert (done.returncode, done.stdout) == (0, f"{target}\n")
    said = ElementTree.parse(target).getroot().findtext("{http://www.w3.org/2000/svg}desc")
    assert said is not None
    assert "shared pool: 0,3-4,6-7" in said


def test_numa_nodes_without_cpus_are_drawn_and_counted(tmp_path: Path) -> None:
    text = pinproof("draw", "qemu-2s-2n-8c-smt1-mem1").stdout
    assert "2 NUMA nodes, 2 sockets, 1 NUMA node without CPUs (2)" in " ".join(text.split())
    assert "\nNUMA node 2: no CPUs, 15" in text
    pinproof("draw", "qemu-2s-2n-8c-smt1-mem1", "--svg", "m.svg", cwd=tmp_path)
    assert "NUMA node 2: no CPUs, 15" in (tmp_path / "m.svg").read_text()


def test_cpus_in_no_numa_node_are_drawn_and_counted(tmp_path: Path) -> None:
    whole = describe("2s-2n-4c-smt2").tree
    gone = ("node0/cpu1", "node0/cpu5")
    pack(
        Tree({path: text for path, text in whole.items() if not path.endswith(gone)}),
        tmp_path / "mine.tar",
    )
    text = pinproof("draw", "./mine.tar", cwd=tmp_path).stdout
    assert "in no NUMA node: CPUs 1,5" in " ".join(text.split())
    assert "\nCPUs in no NUMA node\n   1   5\n" in text
