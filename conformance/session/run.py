"""The controller's part of a run inside pytest: counts, result stream, exit status.

Each worker judges its cases. The controller writes the stream, because only it sees all results.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

import msgspec
import pytest

from conformance.catalogue import digest as catalogue_digest
from conformance.ending import ended_like_an_interrupt
from conformance.judge import Case, unjudged
from conformance.known import Standing, tally
from conformance.observations import node_records
from conformance.recording import RecordedCase, RecordingHeader
from conformance.recording import write as write_recording
from conformance.results import Result, decode
from conformance.session.judging import PROPERTY, RECORDED
from conformance.session.knowing import known_of
from conformance.session.options import configuration
from conformance.session.resuming import before_of
from conformance.session.selection import cases, named_machines, shard_of
from conformance.session.subject import (
    close_subject,
    judged_by,
    not_tested,
    round_trips,
    say,
    say_on_its_own,
    subject_of,
)
from conformance.stream import StreamWriter, host
from conformance.verdict import ExitStatus, Verdict

SUITE_TEST: Final = "test_scenarios.py::test_scenario["
REPORTERS: Final = "pinproof.reporters"


class Run:
    """Counts the results of a run, writes its stream, and sets its exit status."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._writer: StreamWriter | None = None
        self._recorded: list[RecordedCase] = []
        self._reported: set[str] = set()
        self._counts = dict.fromkeys(Verdict, 0)
        self._met = tally(())
        self._named: set[str] = set()
        self._applied: set[str] = set()
        self._cases: dict[str, list[Case]] = {}
        self._unable: set[str] = set()
        self._directory: Path | None = None
        self._not_restored: list[str] = []
        self._signals = contextlib.ExitStack()
        self.stream: Path | None = None
        self.status: ExitStatus | None = None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Begin the stream, if a case is left to run after deselection."""
        if any(SUITE_TEST in item.nodeid for item in session.items):
            self.begin([item.nodeid for item in session.items])

    def begin(self, nodeids: Sequence[str]) -> None:
        """Begin the stream, with the tests that are left to run."""
        if self._writer is not None:
            return
        before = before_of(self._config)
        self._signals.enter_context(ended_like_an_interrupt())
        self._cases = _cases_of(nodeids, cases(self._config))
        directory = self._config.getoption("--pin-report")
        if directory:
            self._directory = Path(directory)
            self.stream = self._directory / "result.jsonl"
        elif self._config.getoption("--pin-stream"):
            self.stream = Path(self._config.getoption("--pin-stream"))
        chosen = [case for found in self._cases.values() for case in found]
        machines = {case.machine.name: case.machine for case in chosen}
        self._named = named_machines(self._config)
        self._writer = StreamWriter(
            self.stream,
            subject_of(self._config).info,
            sorted(machines.keys() | self._named),
            host(judged_by(self._config)),
            digests={name: machine.digest for name, machine in sorted(machines.items())},
            configuration=configuration(self._config),
            catalogue=catalogue_digest(),
            command=list(sys.argv),
            known=list(known_of(self._config).entries),
            shard=shard_of(self._config),
            nodes=node_records(subject_of(self._config)),
            before=None if before is None else (before.header, before.results),
        )
        if before is not None:
            say_on_its_own(self._config, f"{len(before.results)} cases have a verdict already")
            for result in before.results:
                self._count(result)
        self._config.hook.pytest_pinproof_begin(total=len(chosen))

    @property
    def _idle(self) -> list[str]:
        """The machines that were named and on which no scenario applied."""
        if self._config.getoption("--pin-shard"):
            return []  # another shard may have the scenarios that apply there
        return sorted(self._named - self._applied)

    def learn_not_restored(self, what: str) -> None:
        """Note what a process of this run did not restore."""
        if what:
            self._not_restored.append(what)
            say(self._config)(f"not restored: {what}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the results of a case, or of several, out of a report. If the test crashed, make a
        result for each of its cases that has none."""
        if self._writer is None or SUITE_TEST not in report.nodeid:
            return
        worker = getattr(report, "worker_id", "") or ""
        if report.when == "call":
            for name, value in report.user_properties:
                if name == PROPERTY:
                    self._add(decode(str(value)), worker)
                elif name == RECORDED:
                    self._recorded.append(msgspec.json.decode(str(value), type=RecordedCase))
        if report.failed:
            for case in self._cases[_case_id(report.nodeid)]:
                if case.id not in self._reported:
                    self._add(self._crashed(case, report), worker)

    def _add(self, result: Result, worker: str) -> None:
        assert self._writer is not None
        self._reported.add(f"{result.scenario}@{result.machine.name}")
        standing = self._count(result)
        self._config.hook.pytest_pinproof_result(result=result, standing=standing)
        with self._written():
            self._writer.add(msgspec.structs.replace(result, worker=worker))

    @contextlib.contextmanager
    def _written(self) -> Iterator[None]:
        """End the run in one line where its files cannot be written, as on a full disk."""
        try:
            yield
        except OSError as error:
            place = error.filename or self.stream
            reason = f"pinproof: {place}: {error.strerror}"
            pytest.exit(reason, returncode=ExitStatus.COULD_NOT_TELL)

    def _count(self, result: Result) -> Standing:
        self._counts[Verdict(result.verdict)] += 1
        standing = known_of(self._config).standing(result)
        self._met[standing] += 1
        if result.unable:
            self._unable.add(result.scenario)
        if result.verdict != Verdict.SKIP.value:
            self._applied.add(result.machine.name)
        return standing

    def _crashed(self, case: Case, report: pytest.TestReport) -> Result:
        text = report.longreprtext
        reason = (
            f"the test failed before it had a verdict: {(text.strip().splitlines() or ['?'])[-1]}"
        )
        return unjudged(case, subject_of(self._config), reason, text)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """End the stream; the run's exit status is pytest's."""
        self.learn_not_restored(close_subject(self._config))
        self._signals.close()
        for line in not_tested(self._config, self._unable):
            say_on_its_own(self._config, line)
        for line in round_trips(self._config):
            say(self._config)(line)
        if self._writer is None and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            self._begin_with_nothing_left()
        if self._writer is None:
            return
        if exitstatus == pytest.ExitCode.USAGE_ERROR:
            self._writer.discard()
            return
        if exitstatus == pytest.ExitCode.INTERRUPTED and self._has_failed_enough():
            exitstatus = pytest.ExitCode.TESTS_FAILED  # as -x ends a run in one process
        if exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR):
            self._writer.abandon()  # without a footer, so that a cut-off run does not look whole
            self.status = (
                ExitStatus.NOT_RESTORED if self._not_restored else ExitStatus.COULD_NOT_TELL
            )
            session.exitstatus = int(self.status)
            return
        self.status = known_of(self._config).status(
            self._met,
            floor=self._config.getoption("--pin-floor"),
            idle=self._idle,
            part=shard_of(self._config) is not None,
        )
        if exitstatus not in (0, 1, 5) or (exitstatus == 1 and self.status == 0):
            self.status = ExitStatus.COULD_NOT_TELL
        if self._not_restored:
            self.status = ExitStatus.NOT_RESTORED
        with self._written():
            self._writer.finish(self._counts, self.status, self._idle)
            session.exitstatus = int(self.status)
            self._record()
            if self.stream is not None and self._directory is not None:
                for entry in entry_points(group=REPORTERS):
                    entry.load()(self.stream, self._directory)

    def _begin_with_nothing_left(self) -> None:
        """Begin a stream without cases: in a resumed run with nothing left to run, and in an empty
        shard."""
        if before_of(self._config) is not None or shard_of(self._config) is not None:
            self.begin([])

    def _has_failed_enough(self) -> bool:
        """Whether ``-x`` or ``--maxfail`` ended the run, which xdist calls an interrupt."""
        most: int = self._config.getoption("maxfail") or 0
        return 0 < most <= self._counts[Verdict.FAIL] + self._counts[Verdict.UNKNOWN]

    def _record(self) -> None:
        path = self._config.getoption("--pin-record")
        if path:
            info = subject_of(self._config).info
            header = RecordingHeader(release=info.release, version=info.version, digest=info.digest)
            write_recording(Path(path), header, self._recorded)


def _cases_of(nodeids: Iterable[str], cases: Iterable[Case]) -> dict[str, list[Case]]:
    """The cases that each test judges, by the id of the test: a case, or a scenario."""
    by_id: dict[str, list[Case]] = {}
    for case in cases:
        by_id[case.id] = [case]
        by_id.setdefault(case.scenario.id, []).append(case)
    return {id_: by_id[id_] for id_ in map(_case_id, nodeids) if id_ in by_id}


def _case_id(nodeid: str) -> str:
    """The id in brackets after the test's name."""
    return re.sub(r"^.*?\[|\](@[^\]]*)?$", "", nodeid)
