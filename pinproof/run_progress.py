"""The progress of a run: one line on a terminal, dots in a pipe, and each failure at once.

Progress goes to stderr and failures to stdout, so that a log has the failures alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Final, TextIO

from rich.console import Console

from conformance.known import Standing
from conformance.results import Result
from reports import terminal
from reports.causes import causes

if TYPE_CHECKING:
    import pytest

#: Dots of a whole run, at most one for each case: they fit a line of 80 columns.
DOTS: Final = 72
#: Seconds between two updates of the line.
_BETWEEN: Final = 0.2
_LETTERS: Final = {Standing.FAIL: "F", Standing.FIXED: "F", Standing.UNKNOWN: "?"}


class Unannounced:
    """A pytest plugin: workers begin without a message."""

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Where stdout is no terminal, pytest-xdist writes ``bringing up nodes...`` twice."""
        reporter = session.config.pluginmanager.getplugin("terminaldistreporter")
        if reporter is not None:
            reporter.ensure_show_status = reporter.rewrite = lambda *_, **__: None


class Following(Unannounced):
    """A pytest plugin; ``console`` is stdout, ``line`` where progress goes."""

    def __init__(
        self, console: Console, line: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console, self._line, self._clock = console, line, clock
        self._live = line.isatty()
        self._together = _is_same(console.file, line)
        self._began = self._shown = clock()
        self._total = self._done = self._red = self._dots = 0
        self._worst = Standing.PASS
        self._examples: dict[str, Result] = {}
        self._open = False

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Pytest writes no dots of its own, and counts as it always does."""
        if "pinproof" in dict(report.user_properties) or report.when != "call":
            return ("xfailed" if hasattr(report, "wasxfail") else report.outcome), "", ""
        return None

    def pytest_pinproof_begin(self, total: int) -> None:
        """Nothing is written before the first result."""
        self._total, self._began = total, self._clock()

    def pytest_pinproof_result(self, result: Result, standing: Standing) -> None:
        """Show what is wrong with it, and how far the run is."""
        self._done += 1
        if standing in _LETTERS:
            self._red += 1
            self._worst = standing
            self._tell(result, standing)
        if self._live:
            self._show_line()
        else:
            self._show_dots()

    def pytest_sessionfinish(self) -> None:
        self.leave()

    def leave(self) -> None:
        """End the line of progress, so that the next text starts a line."""
        if self._open and (self._live or self._together or self._done >= self._total):
            self._line.write("\r\x1b[K" if self._live else "\n")
            self._line.flush()
            self._open = False

    def _tell(self, result: Result, standing: Standing) -> None:
        self.leave()
        if standing is Standing.FIXED:
            terminal.briefly(result, "it is listed as a known failure, and passes", self._console)
            return
        (cause,) = causes([result])
        example = self._examples.setdefault(f"{standing} {cause.headline}", result)
        if example is result:
            terminal.print_story(result, self._console)
        else:
            terminal.briefly(result, "the same cause", self._console)
        self._console.file.flush()

    def _show_dots(self) -> None:
        total = max(self._total, self._done)
        if total == 1:
            return
        due = min(DOTS, total) * self._done // total
        if due > self._dots:
            letter = _LETTERS.get(self._worst, ".")
            self._line.write(letter + "." * (due - self._dots - 1))
            self._line.flush()
            self._dots, self._open, self._worst = due, True, Standing.PASS

    def _show_line(self) -> None:
        now = self._clock()
        if now - self._shown < _BETWEEN and self._done < self._total:
            return
        self._shown = now
        self._line.write(f"\r\x1b[K{self.progress(now)[: self._console.width - 1]}")
        self._line.flush()
        self._open = True

    def progress(self, now: float) -> str:
        spent = max(now - self._began, 1e-9)
        rate = self._done / spent
        left = (self._total - self._done) / rate if rate else 0.0
        share = 100 * self._done // max(self._total, 1)
        broken = f", {self._red} not kept" if self._red else ""
        speed = f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s"
        return f"{self._done} of {self._total} ({share} %), {speed}, {_duration(left)} left{broken}"


def _is_same(one: IO[str], other: IO[str]) -> bool:
    """Whether two streams write to one file, as in ``2>&1``."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return False


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
