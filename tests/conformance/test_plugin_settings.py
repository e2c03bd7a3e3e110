"""The suite under plain pytest: its settings, and what it says of wrong ones."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

import pytest

from conformance.plugin import pytest_keyboard_interrupt
from conformance.results import Footer, Header, Result, read
from tests.cli.running import Done, python


def _pytest(folder: Path, *arguments: str) -> Done:
    suite = ("-m", "pytest", "--pyargs", "conformance.suite", "-q", "-p", "no:cacheprovider")
    return python(*suite, "--tb=no", *arguments, cwd=folder)


_INI = """[pytest]
pin_subject = miniature:forgets-to-give-back
pin_machine = 1s-1n-4c-smt1 1s-1n-2c-smt1
pin_level = core
pin_behaviour = distribution-ends=on
pin_floor = 1
pin_no_smoke = true
pin_stream = stream.jsonl
"""
_TOML = """[tool.pytest.ini_options]
pin_subject = "miniature:forgets-to-give-back"
pin_machine = ["1s-1n-4c-smt1", "1s-1n-2c-smt1"]
pin_level = "core"
pin_behaviour = ["distribution-ends=on"]
pin_floor = "1"
pin_no_smoke = true
pin_stream = "stream.jsonl"
"""


@pytest.mark.parametrize(
    ("name", "text", "workers"), [("pytest.ini", _INI, "0"), ("pyproject.toml", _TOML, "2")]
)
def test_options_stand_in_the_settings_file(
    name: str, text: str, workers: str, tmp_path: Path
) -> None:
    """The command line goes before them."""
    (tmp_path / name).write_text(text)
    done = _pytest(tmp_path, "-k", "deletion-returns", "-n", workers)
    assert done.returncode == 1, done.stdout + done.stderr
    header, *found, footer = read(tmp_path / "stream.jsonl")
    assert isinstance(header, Header)
    assert isinstance(footer, Footer)
    assert header.subject.name == "miniature:forgets-to-give-back"
    assert header.environment["judged by release"].endswith("+distribution-ends")
    assert header.machines == ["1s-1n-2c-smt1", "1s-1n-4c-smt1"]
    results = [one for one in found if isinstance(one, Result)]
    assert {one.level for one in results} == {"core"}
    over = ("--pin-subject", "reference", "--pin-machine", "1s-1n-4c-smt1", "--pin-floor", "9")
    done = _pytest(tmp_path, "-k", "deletion-returns", "-n", workers, *over)
    assert done.returncode == 4, done.stdout + done.stderr
    header, *_ = read(tmp_path / "stream.jsonl")
    assert isinstance(header, Header)
    assert header.subject.name == "reference"
    assert header.machines == ["1s-1n-4c-smt1"]


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (("--pin-subject", "nonsense", "-n", "2"), "unknown subject 'nonsense'"),
        (("-o", "pin_floor=many", "-n", "2"), "pin_floor = many: it is a number"),
        (("--pin-subject", "nonsense"), "unknown subject 'nonsense'"),
        (("--pin-machine", "nonsense"), "there is no machine 'nonsense'"),
        (("--pin-machine", ""), "a machine's name is empty"),
        (("--pin-release", "1.5"), "release 1.5"),
        (("-o", "pin_level=nonsense"), "pin_level = nonsense: it is one of core, extended"),
        (("-o", "pin_floor=many"), "pin_floor = many: it is a number"),
    ],
)
def test_what_does_not_exist_is_one_line(wrong: tuple[str, ...], line: str, tmp_path: Path) -> None:
    """And pytest's own exit status for wrong usage."""
    done = _pytest(tmp_path, *wrong)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout + done.stderr
    assert done.stderr.startswith(f"ERROR: {line}")
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stdout


def test_an_interrupt_in_an_instruction_of_no_line_can_be_shown() -> None:
    """Pytest alone ends with a TypeError of its own."""
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        of_no_line = TracebackType(error.__traceback__, sys._getframe(), 2_000_000, -1)
        excinfo = pytest.ExceptionInfo.from_exc_info((type(error), error, of_no_line))
    assert len(excinfo.traceback) == 2
    pytest_keyboard_interrupt(excinfo)
    assert len(excinfo.traceback) == 1
    assert "KeyboardInterrupt" in str(excinfo.getrepr(funcargs=True))
