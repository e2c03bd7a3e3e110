"""A run as it goes: progress, and failures as they come."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import pytest
from rich.console import Console

from conformance.known import Standing
from conformance.results import Failure, MachineRecord, Result
from pinproof.run_progress import DOTS, Following
from tests.cli.running import here

MACHINE: Final = MachineRecord(name="1s-1n-4c-smt2", shape="", digest="", cpus={})


def _result(verdict: str, scenario: str = "qos/whole", rule: str = "whole cores") -> Result:
    return Result(
        scenario=scenario,
        title="Title",
        area="qos",
        level="core",
        source="",
        source_url="",
        machine=MACHINE,
        verdict=verdict,
        failure=Failure(rule=rule) if verdict == "fail" else None,
        replay=f"pinproof run -k {scenario}",
    )


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _following(
    line: io.StringIO, total: int, clock: Sequence[float] = (0.0,)
) -> tuple[Following, io.StringIO]:
    """What follows a run of so many cases, and what it writes beside the line."""
    out = io.StringIO()
    following = Following(Console(file=out, width=80), line, clock=lambda: clock[0])
    following.pytest_pinproof_begin(total)
    return following, out


@pytest.mark.parametrize("total", [1, 10, 72, 100, 28_458])
def test_a_pipe_gets_one_line_of_dots(total: int) -> None:
    line = io.StringIO()
    following, out = _following(line, total)
    for number in range(total):
        following.pytest_pinproof_result(_result("skip" if number % 2 else "pass"), Standing.PASS)
    following.pytest_sessionfinish()
    assert line.getvalue() == ("" if total == 1 else "." * min(total, DOTS) + "\n")
    assert out.getvalue() == ""


def test_a_dot_says_that_something_failed_since_the_one_before() -> None:
    line = io.StringIO()
    following, _ = _following(line, 2 * DOTS)
    for number in range(2 * DOTS):
        standing = Standing.UNKNOWN if number == 0 else Standing.PASS
        following.pytest_pinproof_result(_result("unknown"), standing)
    assert line.getvalue() == "?" + "." * (DOTS - 1)


def test_a_terminal_gets_rate_and_time_left_in_one_line() -> None:
    line, clock = _Terminal(), [0.0]
    following, _ = _following(line, 1000, clock)
    for second in range(1, 101):
        clock[0] = second
        following.pytest_pinproof_result(_result("pass"), Standing.PASS)
    assert line.getvalue().split("\r\x1b[K")[-1] == ("100 of 1000 (10 %), 1.0/s, 15 min 0 s left")
    assert max(map(len, line.getvalue().split("\r\x1b[K"))) < 80
    following.leave()
    assert line.getvalue().endswith("\r\x1b[K")
    assert "\n" not in line.getvalue()


def test_failures_come_at_once_and_each_cause_has_its_story_once() -> None:
    following, out = _following(io.StringIO(), 10)
    following.pytest_pinproof_result(_result("fail"), Standing.FAIL)
    first = out.getvalue()
    assert "FAIL  qos/whole [1s-1n-4c-smt2]\n" in first
    assert "pinproof run -k qos/whole" in first
    following.pytest_pinproof_result(_result("fail", "qos/two"), Standing.FAIL)
    following.pytest_pinproof_result(_result("fail", "qos/three"), Standing.KNOWN)
    following.pytest_pinproof_result(_result("pass", "qos/four"), Standing.FIXED)
    assert out.getvalue().removeprefix(first).splitlines() == [
        "FAIL  qos/two [1s-1n-4c-smt2]: the same cause",
        "PASS  qos/four [1s-1n-4c-smt2]: it is listed as a known failure, and passes",
    ]
    following.pytest_pinproof_result(_result("fail", "qos/five", "other rule"), Standing.FAIL)
    assert "FAIL  qos/five [1s-1n-4c-smt2]\n" in out.getvalue()


_RUN: Final = ("run", "--machine", "1s-1n-4c-smt2", "-k", "pool/", "-n", "0")


@pytest.mark.needs("ptys")
def test_on_a_terminal_the_line_is_gone_before_the_summary() -> None:
    master, slave = pty.openpty()
    words = [sys.executable, "-m", "pinproof", *_RUN]
    settings = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=slave, env=settings, timeout=300, check=False
    )
    os.close(slave)
    shown = os.read(master, 65536).decode()
    os.close(master)
    assert done.returncode == 0, shown
    assert " left\r\x1b[K" in shown
    assert shown.endswith("\r\x1b[K")


def test_github_gets_annotations_where_it_runs() -> None:
    wrong = ("--subject", "miniature:forgets-to-give-back")
    there, elsewhere = (here(*_RUN, *wrong, GITHUB_ACTIONS=is_).stdout for is_ in ("true", ""))
    assert "\n::error title=pool/" in there
    assert "::error title=pinproof::Not conformant" in there
    assert there.splitlines()[-1].startswith("Not conformant")
    assert "::error" not in elsewhere


def test_reasons_of_skips_are_listed_when_asked_for() -> None:
    def lines(*more: str) -> str:
        return here("run", *_RUN[1:3], "-k", "packing/", "-n0", *more).stdout

    assert " (-rs lists them).\n" in lines()
    assert " x needs " in lines("-rs")


def test_workers_are_not_announced() -> None:
    """pytest-xdist says twice that it brings up nodes, where nobody looks at a terminal."""
    done = here(*_RUN[:-1], "2", status=0)
    assert "bringing up" not in done.stdout + done.stderr
