"""``capture FILE``, ``machines --export``, ``--pairs``, ``--lint``: what they print and leave."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.running import pinproof
from topologies import Tree, describe, load, pack, pairs

CPU = "sys/devices/system/cpu"
CPUINFO = "proc/cpuinfo"
WHOLE = describe("2s-2n-4c-smt2").tree


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """An archive that lacks what follows from the rest."""
    gone = (f"{CPU}/online", "/cpulist")
    path = tmp_path / "node7.tar.gz"
    pack(Tree({name: text for name, text in WHOLE.items() if not name.endswith(gone)}), path)
    return path


def test_import_completes_and_says_what(half: Path, tmp_path: Path) -> None:
    done = pinproof("capture", str(half), cwd=tmp_path, status=0)
    assert done.stdout == "node7.tar.xz\n"
    assert dict(load(tmp_path / "node7.tar.xz")) == dict(WHOLE)
    assert done.stderr.splitlines() == [
        "completed: cpu/online: the CPUs of /proc/cpuinfo and those with a topology",
        "completed: node/node{0-1}/cpulist: the cpumap of each",
        "a kubelet finds 8 CPUs (0-7), 4 physical cores, 2 NUMA nodes, 2 sockets",
    ]


def test_import_takes_what_lscpu_prints(tmp_path: Path) -> None:
    rows = "0,0,0,0,,0,0,0,0\n1,1,0,0,,1,1,1,0\n"
    (tmp_path / "node7.txt").write_text(f"# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n{rows}")
    done = pinproof("capture", "node7.txt", cwd=tmp_path, status=0)
    assert done.stdout == "node7.tar.xz\n"
    lines = done.stderr.splitlines()
    assert lines[0] == "completed: cpu/cpu*/topology: lscpu numbers cores and sockets by itself"
    assert lines[-1] == "a kubelet finds 2 CPUs (0-1), 2 physical cores, 1 NUMA node, 1 socket"


def test_import_replaces_nothing_unasked(half: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.tar.xz").write_text("precious")
    arguments = ("capture", str(half), "-o", str(tmp_path / "mine.tar.xz"))
    done = pinproof(*arguments, status=2)
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].endswith("it is there already; --force replaces it")
    assert (tmp_path / "mine.tar.xz").read_text() == "precious"
    pinproof(*arguments, "--force", status=0)
    assert dict(load(tmp_path / "mine.tar.xz")) == dict(WHOLE)


def test_import_says_what_is_odd(tmp_path: Path) -> None:
    """On one line each, however the archive names its files."""
    odd = {**WHOLE, f"{CPU}/cpu0/cache/index3/id": "1\n", f"{CPU}/cpu1/topology/core_cpus": "01\n"}
    odd[f"{CPU}/\x1b[31mred/x"] = "\0"
    pack(Tree(odd), tmp_path / "odd.tar")
    done = pinproof("capture", "odd.tar", cwd=tmp_path, status=0)
    assert "odd: sys/devices/system/cpu/cpu1/topology/core_cpus: 0, but" in done.stderr
    assert "\x1b" not in done.stderr
    assert r"repaired: cpu/\x1b[31mred/x: NUL bytes taken out" in done.stderr


@pytest.mark.parametrize("target", ["machine", "machine.tar", "machine.tar.gz", "machine.tar.xz"])
def test_export_writes_a_folder_or_an_archive(tmp_path: Path, target: str) -> None:
    done = pinproof("machines", "2s-2n-4c-smt2", "--export", target, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{target}\n")
    assert dict(load(tmp_path / target)) == dict(WHOLE)
    again = pinproof("machines", "2s-2n-4c-smt2", "--export", target, cwd=tmp_path, status=2)
    assert len(again.stderr.splitlines()) == 1


def test_export_of_a_machine_without_cpuinfo_makes_one_up_and_says_so(tmp_path: Path) -> None:
    pack(Tree({path: text for path, text in WHOLE.items() if path != CPUINFO}), tmp_path / "a.tar")
    done = pinproof("machines", "./a.tar", "--export", "out", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "out\n")
    (said,) = done.stderr.splitlines()
    assert said.startswith("added a proc/cpuinfo that numbers the CPUs: ./a.tar has no")
    assert CPUINFO in load(tmp_path / "out")
    assert CPUINFO not in load(tmp_path / "a.tar")
    assert pinproof("machines", "2s-2n-4c-smt2", "--export", "b.tar", cwd=tmp_path).stderr == ""


def test_pairs_are_listed() -> None:
    done = pinproof("machines", "--pairs", "--json")
    assert len(json.loads(done.stdout)) == len(pairs()) >= 10
    listed = pinproof("machines", "1s-1n-4c-smt1", "--pairs").stdout.splitlines()
    assert [line.split() for line in listed[1:]] == [
        ["cpus-added", "1s-1n-4c-smt1", "1s-1n-4c-smt2"]
    ]


#: Real machines whose kernels contradict themselves, as their entries say under ``kernel``, and
#: how many findings each has.
CONTRADICTORY = {
    "2s-2n-24c-smt1-off0-3,21-23-xeon-e5-2680v3": 91,
    "2s-8n-8c-smt1-xeon-e5472-buggynuma": 8,
    "4s-8n-64c-smt1-opteron6276": 160,
}


def test_the_catalogue_has_no_finding_that_is_not_its_kernels() -> None:
    lines = pinproof("machines", "--lint").stdout.splitlines()
    assert Counter(line.partition(": ")[0] for line in lines) == CONTRADICTORY


def test_lint_lists_findings(tmp_path: Path) -> None:
    odd = Tree({**WHOLE, f"{CPU}/cpu1/topology/core_cpus": "01\n"})
    pack(odd, tmp_path / "odd.tar")
    done = pinproof("machines", "./odd.tar", "--lint", cwd=tmp_path, status=0)
    assert done.stdout.startswith("odd: sys/devices/system/cpu/cpu1/topology/core_cpus: 0, but")
    (first, *_) = json.loads(
        pinproof("machines", "./odd.tar", "--lint", "--json", cwd=tmp_path).stdout
    )
    assert first["machine"] == "odd"


def test_machines_say_what_kernel_and_kubelet_make_of_them() -> None:
    (one,) = json.loads(pinproof("machines", "qemu-1s-1n-4c-smt4-near", "--json").stdout)
    assert one["kernel"] == "Core 0 is CPUs 0-3."
    assert "Linux 6.1" in one["source"]
