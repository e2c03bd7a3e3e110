"""``pinproof machines``: one line each, names whole, and no machine that hides the others."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import topologies
from tests.cli.running import pinproof
from topologies import describe, names, pack

LONG = "2s-2n-8c-smt2-cpustep2-pkgstep2-nodestep4"


def on_a_terminal(columns: int, *arguments: str) -> list[str]:
    """What a terminal of so many columns shows."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "pinproof", *arguments],
        stdout=theirs,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        said = b""
        try:
            while piece := os.read(ours, 1 << 16):
                said += piece
        except OSError:
            pass  # the other end is closed
        finally:
            os.close(ours)
    assert process.returncode == 0
    return said.decode().splitlines()


def test_a_pipe_gets_a_line_for_each_with_nothing_cut() -> None:
    title, *lines = pinproof("machines").stdout.splitlines()
    assert title.split() == ["machine", "CPUs", "cores", "NUMA", "sockets", "from", "why"]
    assert [line.split()[0] for line in lines] == names()
    for line, name in zip(lines, names(), strict=True):
        assert line.endswith(topologies.machine(name).why)


@pytest.mark.needs("ptys")
@pytest.mark.parametrize("columns", [80, 100, 120])
def test_a_terminal_gets_a_line_for_each_with_whole_names(columns: int) -> None:
    _, *lines = on_a_terminal(columns, "machines")
    assert [line.split()[0] for line in lines] == names()
    assert max(map(len, lines)) <= columns
    (line,) = (line for line in lines if line.startswith("1s-1n-4c-smt1 "))
    assert line.split(maxsplit=6)[:6] == ["1s-1n-4c-smt1", "4", "4", "1", "1", "described"]
    assert line.endswith("…"), "the reason takes what is left"


def test_numa_nodes_without_cpus_are_counted_apart() -> None:
    _, line = pinproof("machines", "2s-2n-16c-smt2-mem2").stdout.splitlines()
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
    rows = json.loads(pinproof("machines", text, "--json").stdout)
    found = [row["name"] for row in rows]
    assert [name for name in found if name in expected] == expected
    said = [" ".join(row.values()).casefold() for row in rows]
    assert all(text.strip("*").casefold() in one for one in said)


def test_a_word_is_not_found_in_another() -> None:
    found = pinproof("machines", "AMD", "--json").stdout
    assert not any("-amd64 of" in row["source"] for row in json.loads(found) if "AMD" not in
                   row["source"])  # fmt: skip


def test_long_says_the_rest() -> None:
    text = pinproof("machines", "qemu-1s-1n-4c-smt4-near", "--long").stdout
    for part in (
        "  kernel:  Core 0 is CPUs 0-3.",
        "  source:  captured in QEMU",
        "  digest:  sha256:",
        "  totals:  16 CPUs (0-15), 4 physical cores, 1 NUMA node, 1 socket",
    ):
        assert part in text


def test_a_broken_archive_does_not_take_the_list_away(tmp_path: Path) -> None:
    pack(describe("1s-1n-2c-smt1").tree, tmp_path / "mine.tar.xz")
    (tmp_path / "broken.tar.xz").write_bytes(b"no archive")
    (tmp_path / "noted.toml").write_text("why = 3")
    pack(describe("1s-1n-2c-smt1").tree, tmp_path / "noted.tar.xz")
    os.environ["PINPROOF_MACHINES"] = str(tmp_path)
    try:
        done = pinproof("machines")
        listed = pinproof("machines", "--json")
        linted = pinproof("machines", "--lint")
        named = pinproof("machines", "broken")
    finally:
        del os.environ["PINPROOF_MACHINES"]
    assert done.returncode == listed.returncode == linted.returncode == 0
    lines = {line.split()[0]: line for line in done.stdout.splitlines()[1:]}
    assert set(lines) == {*names(), "mine", "broken", "noted"}
    assert "not a tar archive" in lines["broken"]
    assert lines["mine"].split()[1:6] == ["2", "2", "1", "1", "archive"]
    (said,) = done.stderr.splitlines()
    assert said.startswith("pinproof: cannot use 2 machines, the first of them: ")
    assert "broken.tar.xz: not a tar archive" in said
    rows = {row["name"]: row for row in json.loads(listed.stdout)}
    assert "not a tar archive" in rows["broken"]["error"]
    assert rows["mine"]["digest"].startswith("sha256:")
    assert named.returncode == 2
    assert "broken.tar.xz: not a tar archive" in named.stderr


def test_find_takes_no_empty_name() -> None:
    with pytest.raises(topologies.MachineError, match="a machine's name is empty"):
        topologies.find("")
