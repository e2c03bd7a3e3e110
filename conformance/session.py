"""A run of the shipped suite inside pytest: its subject, its cases, its result stream.

Each worker judges its cases; the controller alone writes the stream, because it alone sees all.
Loaded by :mod:`conformance.plugin` when the suite is part of a session, and not before.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
from collections.abc import Sequence
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

import topologies
from conformance.catalogue import catalogue
from conformance.discovered import architecture_of
from conformance.ending import ended_like_an_interrupt
from conformance.judge import Case, Judgement, judge, unjudged
from conformance.lockstep import OracleMaker
from conformance.oracle import ModelOracle
from conformance.progress import now_and_then
from conformance.recording import RecordedCase, RecordingHeader, recorded, recorded_oracle
from conformance.recording import write as write_recording
from conformance.results import Result
from conformance.scenario import Level, Scenario
from conformance.smoke import smoke
from conformance.stream import StreamWriter
from conformance.subject import (
    CountsTrips,
    HasOwnMachines,
    Subject,
    SubjectError,
    SubjectNotRestored,
    SubjectUsageError,
)
from conformance.subjects import open_subject
from conformance.subjects.reference import ReferenceSubject
from conformance.verdict import ExitStatus, Verdict, exit_status
from reference.errors import ModelError
from reference.releases import Release, require_whole_node
from topologies.errors import one_line

PROPERTY: Final = "pinproof"
SUITE_TEST: Final = "test_scenarios.py::test_scenario["
RECORDED: Final = "pinproof-recorded"
REPORTERS: Final = "pinproof.reporters"
NOT_RESTORED: Final = "pinproof-not-restored"
CERTIFICATE: Final = "certificate"
NODE_AREA: Final = "node"
SUBJECT_KEY: Final = pytest.StashKey[Subject]()


def subject_of(config: pytest.Config) -> Subject:
    """The subject of this run, opened once in each process, and tried once in all."""
    if SUBJECT_KEY not in config.stash:
        subject = open_subject(config.getoption("--pin-subject"), progress=_say(config))
        if isinstance(subject, ReferenceSubject) and subject.info.name == "reference":
            # The model is of any release: of the one that is asked for.
            subject = subject.of(_judged_by(config, subject))
        config.stash[SUBJECT_KEY] = subject
        if not config.getoption("--pin-no-smoke") and not hasattr(config, "workerinput"):
            smoke(subject)
    return config.stash[SUBJECT_KEY]


def _say(config: pytest.Config) -> Any:
    reporter = config.pluginmanager.get_plugin("terminalreporter")

    def say(stage: str) -> None:
        if reporter is not None:
            reporter.write_line(f"pinproof: {one_line(stage)}")

    return now_and_then(say)


def release_of(config: pytest.Config) -> str:
    """The release by whose behaviour the run judges, with the overrides that were given. Raises
    ``ValueError`` for what is no release or behaviour."""
    return _judged_by(config, subject_of(config))


def _judged_by(config: pytest.Config, subject: Subject) -> str:
    base = config.getoption("--pin-release") or subject.info.release
    return str(Release.parse(base).overridden(*config.getoption("--pin-behaviour")))


def close_subject(config: pytest.Config) -> str:
    """Close the subject of this process. What it could not leave as it was, in words; ``""``."""
    if SUBJECT_KEY in config.stash:
        try:
            config.stash[SUBJECT_KEY].close()
        except SubjectNotRestored as error:
            return str(error)
    return ""


def _told_trips(config: pytest.Config) -> list[str]:
    """Of a subject that counts its round trips: how many there were, by node."""
    subject: object = config.stash.get(SUBJECT_KEY, None)
    if not isinstance(subject, CountsTrips):
        return []
    return [
        f"{name}: {count} round trips in {scenarios} scenarios, {count / scenarios:.1f} each"
        for name, (scenarios, count) in subject.trips.items()
        if scenarios
    ]


# ---- cases ------------------------------------------------------------------------------------


def cases(config: pytest.Config) -> list[Case]:
    """Every scenario on every machine that was asked for. A scenario about one machine of its own
    stands in the list once, on that machine: where the whole catalogue was asked for, that machine,
    or, with ``-k``, that scenario.

    Raises :class:`pytest.UsageError` for an unknown machine or release.
    """
    try:
        require_whole_node(release_of(config))
        machines = _machines(config)
        unique = {machine.name: machine for machine in machines}
        level = config.getoption("--pin-level")
        # Of a subject that is a machine, a scenario about another one says nothing.
        real = isinstance(subject_of(config), HasOwnMachines)
        return [
            case
            for scenario in catalogue()
            if _is_asked(scenario, level) and not (real and scenario.machine)
            for case in _cases_of(scenario, unique, config)
        ]
    except (topologies.MachineError, ModelError, SubjectUsageError, ValueError) as error:
        raise pytest.UsageError(str(error)) from error
    except SubjectError as error:
        pytest.exit(f"pinproof: {one_line(str(error))}", returncode=ExitStatus.COULD_NOT_TELL)


def _is_asked(scenario: Scenario, level: str) -> bool:
    """A certificate is about every core promise, and about all that only a real node can show."""
    if level == CERTIFICATE and scenario.area == NODE_AREA:
        return True
    return level == Level.EXTENDED.value or scenario.level is Level.CORE


def _machines(config: pytest.Config) -> list[topologies.Machine]:
    """Those that were asked for; of a subject that is a machine itself, its own."""
    patterns = config.getoption("--pin-machine") or ["all"]
    subject = subject_of(config)
    if isinstance(subject, HasOwnMachines):
        return [one for one in subject.machines if "all" in patterns or one.name in patterns]
    return [machine for pattern in patterns for machine in topologies.find(pattern)]


def _cases_of(
    scenario: Scenario, machines: dict[str, topologies.Machine], config: pytest.Config
) -> list[Case]:
    if not scenario.machine:
        return [Case(scenario, machine) for machine in machines.values()]
    own = topologies.machine(scenario.machine)
    chosen = machines.get(own.name)
    is_chosen = chosen is not None and chosen.digest == own.digest
    by_name = scenario.id.partition("/")[2] in config.getoption("-k").lower()
    takes_all = "all" in (config.getoption("--pin-machine") or ["all"])
    return [Case(scenario, own)] if is_chosen or by_name or takes_all else []


def _named(config: pytest.Config) -> set[str]:
    """The machines that were asked for by more than ``all``; those of a subject that is machines
    itself came with its name."""
    if isinstance(subject_of(config), HasOwnMachines):
        return {machine.name for machine in _machines(config)}
    patterns = [one for one in config.getoption("--pin-machine") if one != "all"]
    return {machine.name for pattern in patterns for machine in topologies.find(pattern)}


def judge_item(case: Case, subject: Subject, item: pytest.Item) -> Judgement:
    """Judge a case; its result travels to the controller as a property of the test."""
    release = release_of(item.config)
    judgement = judge(case, subject, oracle=_oracle(case, subject, release), release=release)
    item.user_properties.append((PROPERTY, msgspec.json.encode(judgement.result).decode()))
    if item.config.getoption("--pin-record") and worth_recording(judgement):
        record = recorded(case.scenario.id, case.machine, judgement.history)
        item.user_properties.append((RECORDED, msgspec.json.encode(record).decode()))
    return judgement


def worth_recording(judgement: Judgement) -> bool:
    """Whether a kubelet of this release does the same each time: it kept the promise, and chance
    decided nothing otherwise than the model has it. Up to 1.21 it often does (docs/facts 3.1)."""
    return judgement.result.verdict == Verdict.PASS.value and not judgement.by_chance


def _oracle(case: Case, subject: Subject, release: str) -> OracleMaker:
    if subject.info.name == "reference":
        # The model cannot be its own judge.
        return recorded_oracle(case.scenario.id, case.machine, release)

    def make(*args: Any, **kwargs: Any) -> ModelOracle:
        built_for = architecture_of(subject.info)
        return ModelOracle(*args, release=release, architecture=built_for, **kwargs)

    return make


# ---- the stream, on the controller ------------------------------------------------------------


class Run:
    """What the controller knows of a run: counts, stream, exit status."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._writer: StreamWriter | None = None
        self._recorded: list[RecordedCase] = []
        self._reported: set[str] = set()
        self._counts = dict.fromkeys(Verdict, 0)
        self._named: set[str] = set()
        self._applied: set[str] = set()
        self._by_id: dict[str, Case] = {}
        self._directory: Path | None = None
        self._not_restored: list[str] = []
        self._signals = contextlib.ExitStack()
        self.stream: Path | None = None
        self.status: ExitStatus | None = None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Begin the stream, if something is left to run after deselection."""
        if any(SUITE_TEST in item.nodeid for item in session.items):
            self.begin([item.nodeid for item in session.items])

    def begin(self, nodeids: Sequence[str]) -> None:
        """Begin the stream, once it is known which tests are left to run."""
        if self._writer is not None:
            return
        self._signals.enter_context(ended_like_an_interrupt())
        self._by_id = {case.id: case for case in cases(self._config)}
        directory = self._config.getoption("--pin-report")
        if directory:
            self._directory = Path(directory)
            self.stream = self._directory / "result.jsonl"
        elif self._config.getoption("--pin-stream"):
            self.stream = Path(self._config.getoption("--pin-stream"))
        chosen = (self._by_id.get(_case_id(nodeid)) for nodeid in nodeids)
        self._named = _named(self._config)
        names = sorted({case.machine.name for case in chosen if case is not None} | self._named)
        self._writer = StreamWriter(
            self.stream, subject_of(self._config).info, names, _environment(self._config)
        )

    @property
    def _idle(self) -> list[str]:
        """The machines that were named and on which no scenario applied."""
        return sorted(self._named - self._applied)

    def learn_not_restored(self, what: str) -> None:
        """A process of this run could not leave everything as it was."""
        if what:
            self._not_restored.append(what)
            _say(self._config)(f"not restored: {what}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a case's result out of its report, or make one of a case that crashed."""
        if self._writer is None or SUITE_TEST not in report.nodeid:
            return
        properties = dict(report.user_properties)
        text = properties.get(PROPERTY)
        if text is not None and report.when == "call":
            result = msgspec.json.decode(str(text), type=Result)
            self._add(report.nodeid, result, getattr(report, "worker_id", ""))
            if RECORDED in properties:
                case = msgspec.json.decode(str(properties[RECORDED]), type=RecordedCase)
                self._recorded.append(case)
        elif report.failed and report.nodeid not in self._reported:
            self._add(report.nodeid, self._crashed(report), getattr(report, "worker_id", ""))

    def _add(self, nodeid: str, result: Result, worker: str) -> None:
        assert self._writer is not None
        self._reported.add(nodeid)
        self._counts[Verdict(result.verdict)] += 1
        if result.verdict != Verdict.SKIP.value:
            self._applied.add(result.machine.name)
        self._writer.add(msgspec.structs.replace(result, worker=worker or ""))

    def _crashed(self, report: pytest.TestReport) -> Result:
        text = report.longreprtext
        reason = f"the test broke before a verdict: {(text.strip().splitlines() or ['?'])[-1]}"
        return unjudged(
            self._by_id[_case_id(report.nodeid)], subject_of(self._config), reason, text
        )

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """End the stream; the run's exit status is pytest's."""
        self.learn_not_restored(close_subject(self._config))
        self._signals.close()
        for told in _told_trips(self._config):
            _say(self._config)(told)
        if self._writer is None:
            return
        if exitstatus == pytest.ExitCode.USAGE_ERROR:
            self._writer.discard()
            return
        if exitstatus == pytest.ExitCode.INTERRUPTED and self._has_failed_enough():
            exitstatus = pytest.ExitCode.TESTS_FAILED  # so does -x end in one process
        if exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR):
            self._writer.abandon()  # the footer is missing: a cut-off run must not look whole
            self.status = (
                ExitStatus.NOT_RESTORED if self._not_restored else ExitStatus.COULD_NOT_TELL
            )
            session.exitstatus = int(self.status)
            return
        floor = self._config.getoption("--pin-floor")
        self.status = exit_status(self._counts, floor=floor, idle=self._idle)
        if exitstatus not in (0, 1, 5) or (exitstatus == 1 and self.status == 0):
            self.status = ExitStatus.COULD_NOT_TELL
        if self._not_restored:
            self.status = ExitStatus.NOT_RESTORED
        self._writer.finish(self._counts, self.status, self._idle)
        session.exitstatus = int(self.status)
        self._record()
        if self.stream is not None and self._directory is not None:
            for entry in entry_points(group=REPORTERS):
                entry.load()(self.stream, self._directory)

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


def _case_id(nodeid: str) -> str:
    """What pytest has in brackets behind the test's name."""
    return re.sub(r"^.*?\[|\](@[^\]]*)?$", "", nodeid)


def _environment(config: pytest.Config) -> dict[str, str]:
    """What a reader wants to know of where this ran; no host name, no user."""
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpus of the host": str(os.cpu_count() or 0),
        "pinproof": version("pinproof"),
        "judged by release": release_of(config),
        "options": json.dumps(
            {
                "machine": config.getoption("--pin-machine"),
                "level": config.getoption("--pin-level"),
                "keyword": config.getoption("-k"),
            }
        ),
    }
