"""How a case is judged inside pytest: by which oracle, and where its result goes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import msgspec
import pytest

from conformance.discovered import architecture_of
from conformance.judge import Case, Judgement, judge
from conformance.lockstep import OracleMaker
from conformance.oracle import ModelOracle
from conformance.recording import recorded, recorded_oracle
from conformance.results import encode
from conformance.session.ahead import PLUGIN, Ahead
from conformance.session.dealing import REACH, Steadily
from conformance.session.knowing import known_of
from conformance.session.selection import cases
from conformance.session.subject import release_of, subject_of
from conformance.subject import Capability, Subject, WaitsMost
from conformance.verdict import Verdict

#: Properties of a test's report, in which a result and a recording travel to the controller.
PROPERTY: Final = "pinproof"
RECORDED: Final = "pinproof-recorded"


def judge_item(case: Case, subject: Subject, item: pytest.Item) -> Judgement:
    """Judge a case, or wait for it if it has begun already; its result travels to the controller as
    a property of the test."""
    ahead: Ahead | None = item.config.pluginmanager.get_plugin(PLUGIN)
    judgement = ahead.judgement(case) if ahead else _judged(case, subject, release_of(item.config))
    item.user_properties.append((PROPERTY, encode(judgement.result).decode()))
    if item.config.getoption("--pin-record") and worth_recording(judgement):
        record = recorded(case.scenario.id, case.machine, judgement.history)
        item.user_properties.append((RECORDED, msgspec.json.encode(record).decode()))
    return replace(judgement, known=known_of(item.config))


def judge_ahead(config: pytest.Config, subject: Subject) -> None:
    """From now on begin cases before their turn, if the subject mostly waits."""
    if not isinstance(subject, WaitsMost) or config.pluginmanager.has_plugin(PLUGIN):
        return
    release = release_of(config)
    ahead = Ahead(
        lambda case: _judged(case, subject, release), subject.interrupt, at_a_time=subject.at_a_time
    )
    config.pluginmanager.register(ahead, PLUGIN)


def steadily(config: pytest.Config, log: object) -> Steadily | None:
    """The scheduler for workers that begin cases before their turn; ``None``: xdist's own."""
    subject = subject_of(config)
    if not isinstance(subject, WaitsMost):
        return None
    slow = {one.id for one in cases(config) if Capability.API_SERVER in one.scenario.capabilities}
    return Steadily(config, log, least=REACH * subject.at_a_time + 1, slow=slow)


def _judged(case: Case, subject: Subject, release: str) -> Judgement:
    return judge(case, subject, oracle=_oracle(case, subject, release), release=release)


def worth_recording(judgement: Judgement) -> bool:
    """Whether a kubelet of this release does the same each time: it kept the promise, and chance
    decided as the model has it. Up to 1.21 it often does not (docs/facts 3.1)."""
    return judgement.result.verdict == Verdict.PASS.value and not judgement.by_chance


def _oracle(case: Case, subject: Subject, release: str) -> OracleMaker:
    if subject.info.name == "reference":
        # The model cannot be its own judge.
        return recorded_oracle(case.scenario.id, case.machine, release)
    return partial(ModelOracle, release=release, architecture=architecture_of(subject.info))
