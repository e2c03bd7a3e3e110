"""``pinproof machines``: one line each, names whole, and no machine that hides the others. What it
exports, and what ``pinproof capture`` makes of files, folders and this host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import topologies
from tests.cli.running import here
from topologies import Tree, describe, load, names, pack, pairs
from topologies.overlay import sysfs_overlay

LONG = "2s-2n-8c-smt2-cpustep2-pkgstep2-nodestep4"


def test_a_pipe_gets_a_line_for_each_with_nothing_cut() -> None:
    title, *lines = here("machines").stdout.splitlines()
    assert title.split() == ["machine", "CPUs", "cores", "NUMA", "sockets", "from", "why"]
    assert [line.split()[0] for line in lines] == names()
    for line, name in zip(lines, names(), strict=True):
        assert line.endswith(topologies.machine(name).why)


@pytest.mark.parametrize("columns", ["80", "100", "120"])
def test_a_terminal_gets_a_line_for_each_with_whole_names(columns: str) -> None:
    """Rich takes what it writes to for a terminal where FORCE_COLOR is set."""
    _, *lines = here("machines", COLUMNS=columns, FORCE_COLOR="1", TERM="xterm").stdout.splitlines()
    assert [line.split()[0] for line in lines] == names()
    assert max(map(len, lines)) <= int(columns)
    (line,) = (line for line in lines if line.startswith("1s-1n-4c-smt1 "))
    assert line.split(maxsplit=6)[:6] == ["1s-1n-4c-smt1", "4", "4", "1", "1", "described"]
    assert line.endswith("…"), "the reason takes what is left"


def test_numa_nodes_without_cpus_are_counted_apart() -> None:
    _, line = here("machines", "2s-2n-16c-smt2-mem2").stdout.splitlines()
    assert line.split()[1:5] == ["32", "16", "2+2", "2"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cxl", ["qemu-2s-2n-8c-smt1-mem1", "2s-2n-16c-smt2-mem2"]),
        ("Sub-NUMA", ["qemu-2s-4n-16c-smt2-near-l3s", "2s-4n-64c-smt2"]),
        ("*-nodestep4", [LONG]),
        ("nodestep", [LONG]),
    ],
)
def test_a_text_is_searched_for(text: str, expected: list[str]) -> None:
    rows = json.loads(here("machines", text, "--json").stdout)
    found = [row["name"] for row in rows]
    assert [name for name in found if name in expected] == expected
    said = [" ".join(row.values()).casefold() for row in rows]
    assert all(text.strip("*").casefold() in one for one in said)


def test_a_word_is_not_found_in_another() -> None:
    sources = [row["source"] for row in json.loads(here("machines", "AMD", "--json").stdout)]
    assert not any("-amd64 of" in one for one in sources if "AMD" not in one)


def test_long_says_the_rest() -> None:
    (row,) = json.loads(here("machines", "qemu-1s-1n-4c-smt4-near", "--json").stdout)
    assert row["kernel"] == "Core 0 is CPUs 0-3."
    assert "Linux 6.1" in row["source"]
    text = here("machines", "qemu-1s-1n-4c-smt4-near", "--long").stdout
    for part in (
        "kernel:  Core 0 is CPUs 0-3.", "source:  captured in QEMU", "digest:  sha256:",
        "totals:  16 CPUs (0-15), 4 physical cores, 1 NUMA node, 1 socket",
    ):  # fmt: skip
        assert f"  {part}" in text


def test_a_broken_archive_does_not_take_the_list_away(tmp_path: Path) -> None:
    for name in ("mine", "noted"):
        pack(describe("1s-1n-2c-smt1").tree, tmp_path / f"my-{name}.tar.xz")
    (tmp_path / "my-broken.tar.xz").write_bytes(b"no archive")
    (tmp_path / "my-noted.toml").write_text("why = 3")
    done, listed, _, named = (
        here("machines", *words, status=status, PINPROOF_MACHINES=str(tmp_path))
        for words, status in (
            ([], 0), (["my-*", "--json"], 0), (["my-*", "--lint"], 0), (["my-broken"], 2),
        )
    )  # fmt: skip
    lines = {line.split()[0]: line for line in done.stdout.splitlines()[1:]}
    assert set(lines) == {*names(), "my-mine", "my-broken", "my-noted"}
    assert "not a tar archive" in lines["my-broken"]
    assert lines["my-mine"].split()[1:6] == ["2", "2", "1", "1", "archive"]
    (said,) = done.stderr.splitlines()
    assert said.startswith("pinproof: cannot use 2 machines, the first of them: ")
    assert "my-broken.tar.xz: not a tar archive" in said
    rows = {row["name"]: row for row in json.loads(listed.stdout)}
    assert "not a tar archive" in rows["my-broken"]["error"]
    assert rows["my-mine"]["digest"].startswith("sha256:")
    assert "my-broken.tar.xz: not a tar archive" in named.stderr


# -- export, pairs, lint, and capture --------------------------------------------------------------

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
    done = here("capture", str(half), cwd=tmp_path, status=0)
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
    done = here("capture", "node7.txt", cwd=tmp_path, status=0)
    assert done.stdout == "node7.tar.xz\n"
    lines = done.stderr.splitlines()
    assert lines[0] == "completed: cpu/cpu*/topology: lscpu numbers cores and sockets by itself"
    assert lines[-1] == "a kubelet finds 2 CPUs (0-1), 2 physical cores, 1 NUMA node, 1 socket"


def test_import_says_what_is_odd(tmp_path: Path) -> None:
    """On one line each, however the archive names its files."""
    odd = {**WHOLE, f"{CPU}/cpu0/cache/index3/id": "1\n", f"{CPU}/cpu1/topology/core_cpus": "01\n"}
    odd[f"{CPU}/\x1b[31mred/x"] = "\0"
    pack(Tree(odd), tmp_path / "odd.tar")
    done = here("capture", "odd.tar", cwd=tmp_path, status=0)
    assert "odd: sys/devices/system/cpu/cpu1/topology/core_cpus: 0, but" in done.stderr
    assert "\x1b" not in done.stderr
    assert r"repaired: cpu/\x1b[31mred/x: NUL bytes taken out" in done.stderr


def test_export_of_a_machine_without_cpuinfo_makes_one_up_and_says_so(tmp_path: Path) -> None:
    pack(Tree({path: text for path, text in WHOLE.items() if path != CPUINFO}), tmp_path / "a.tar")
    done = here("machines", "./a.tar", "--export", "out", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "out\n")
    (said,) = done.stderr.splitlines()
    assert said.startswith("added a proc/cpuinfo that numbers the CPUs: ./a.tar has no")
    assert CPUINFO in load(tmp_path / "out")
    assert CPUINFO not in load(tmp_path / "a.tar")
    assert here("machines", "2s-2n-4c-smt2", "--export", "b.tar", cwd=tmp_path).stderr == ""


def test_a_machine_is_written_as_the_overlay_of_dra_driver_cpu(tmp_path: Path) -> None:
    """A YAML map of texts, as the driver parses it; a machine that it refuses is written too."""
    arguments = ("--export", "out.yaml", "--sysfs-overlay")
    done = here("machines", "2s-2n-4c-smt2", *arguments, cwd=tmp_path, status=0)
    assert (done.stdout, done.stderr) == ("out.yaml\n", "")
    alone = here("machines", "2s-2n-4c-smt2", "--sysfs-overlay", cwd=tmp_path, status=2)
    assert "--sysfs-overlay needs --export, the file to write" in alone.stderr
    overlay = yaml.safe_load((tmp_path / "out.yaml").read_text())
    assert overlay == sysfs_overlay(WHOLE)
    again = here("machines", "1s-2n-8c-smt4-near", *arguments, cwd=tmp_path, status=2)
    assert again.stderr.splitlines()[-1].endswith("it is there already; --force replaces it")
    assert yaml.safe_load((tmp_path / "out.yaml").read_text()) == overlay
    refused = here(
        "export", "6s-1n-20c-smt1-s390x-z196", *arguments[1:], "--force", cwd=tmp_path, status=0
    )
    assert refused.stderr == (
        "dra-driver-cpu leaves out CPUs 0-19 of 6s-1n-20c-smt1-s390x-z196: they have no socket, no "
        "core, no NUMA node or no caches\n"
    )


def test_pairs_are_listed() -> None:
    done = here("machines", "--pairs", "--json")
    assert len(json.loads(done.stdout)) == len(pairs()) >= 10


def test_lint_lists_findings(tmp_path: Path) -> None:
    odd = Tree({**WHOLE, f"{CPU}/cpu1/topology/core_cpus": "01\n"})
    pack(odd, tmp_path / "odd.tar")
    done = here("machines", "./odd.tar", "--lint", cwd=tmp_path, status=0)
    assert done.stdout.startswith("odd: sys/devices/system/cpu/cpu1/topology/core_cpus: 0, but")
    (first, *_) = json.loads(here("machines", "./odd.tar", "--lint", "--json", cwd=tmp_path).stdout)
    assert first["machine"] == "odd"
