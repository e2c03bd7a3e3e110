"""What becomes of standard output and error decides nothing about a kubelet."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.running import here
from tests.exec.conftest import WRONG

_RUN = f"{sys.executable} -m pinproof run -k machine/cpu-upgrade-incident"
_WRONG = f"{sys.executable} -m pinproof run --subject miniature:splits-cores -k qos/whole"


def _shell(
    script: str, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    words = ["bash", "-o", "pipefail", "-c", script]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=300, cwd=cwd, env=env, check=False
    )


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (f"{_RUN} --report o | true", 0),
        (f"{_WRONG} --machine 1s-1n-4c-smt2 --report o | true", 1),
        (f"{_RUN} --report o >&-", 0),
        (f"{_RUN} --report o 2>&-", 0),
        (f"{_RUN} --report o 2>/dev/full", 0),
        (f"{_RUN} --report o >/dev/full", 3),
    ],
)
def test_a_run_ends_with_its_own_status(script: str, status: int, tmp_path: Path) -> None:
    """And with its reports. Where its output could not be written, success is not claimed."""
    done = _shell(script, tmp_path)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert {one.name for one in (tmp_path / "o").iterdir()} == {
        "result.jsonl", "report.html", "junit.xml",
    }  # fmt: skip
    if status == 3:
        last = done.stderr.splitlines()[-1]
        assert last == "pinproof: standard output: No space left on device"


def test_a_reader_that_has_read_enough_is_no_fault(tmp_path: Path) -> None:
    done = _shell(f"{sys.executable} -m pinproof machines | head -1", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_locale_that_lacks_a_character_loses_no_verdict(tmp_path: Path) -> None:
    ascii_alone = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = _shell(f"{_WRONG} --machine 1s-1n-4c-smt2", tmp_path, {**os.environ, **ascii_alone})
    assert done.returncode == 1
    assert "Not conformant" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_time_without_end_is_wrong_usage() -> None:
    for words in (("explore", "reference", "--time"), ("run", "--explore")):
        assert "527040" in here(*words, "inf", status=2).stderr


def test_a_program_in_this_folder_is_found(tmp_path: Path) -> None:
    """As a shell finds it."""
    program = tmp_path / "driver"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {WRONG} old-at-once "$@"\n')
    program.chmod(0o755)
    done = here("run", "--subject", "exec:./driver", cwd=tmp_path, status=3)
    assert "the program speaks protocol 0, not 1" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "run --machine 1s-1n-4c-smt2 -k pool/ --report o",
        "explore reference --machine 1s-1n-4c-smt2 --time 0.1 --report o",
    ],
)
def test_a_stream_that_cannot_be_written_is_no_verdict(command: str, tmp_path: Path) -> None:
    """As on a full disk; here files may not be larger than 4 KiB."""
    done = _shell(f"ulimit -f 4; {sys.executable} -B -m pinproof {command}", tmp_path)
    assert done.returncode == 3, done.stderr
    assert "File too large" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
