"""One scenario on one machine with one subject, from beginning to verdict."""

from __future__ import annotations

import time
import traceback
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec.structs

from conformance.discovered import architecture_of, contradiction, topology_of
from conformance.explain import Story, explanation, replay_command, undecided
from conformance.known import KnownFailures
from conformance.lockstep import (
    CouldNotTell,
    Divergence,
    LockstepNode,
    OracleMaker,
    Seen,
    machine_record,
)
from conformance.needs import DoesNotApply
from conformance.observations import observed
from conformance.recording import PromisesOnly
from conformance.results import Result
from conformance.scenario import Scenario
from conformance.subject import (
    Capability,
    CouldDoMore,
    HasOwnConfig,
    Subject,
    SubjectError,
    SubjectUnable,
    configured,
)
from conformance.subjects.reference import ReferenceSubject
from conformance.verdict import Verdict
from conformance.waiting import Waiting
from reference import CPUTopology, DiscoveryError
from reference.releases import has
from reference.steps import KubeletConfig
from topologies import Machine

_NOTHING: Final = KnownFailures((), date.min)
#: By subject, for this process.
_WAITING: Final[WeakKeyDictionary[Subject, Waiting]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario on a machine."""

    scenario: Scenario
    machine: Machine

    @property
    def id(self) -> str:
        """``area/scenario@machine``, unique in a run."""
        return f"{self.scenario.id}@{self.machine.name}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A result, and the views behind it. ``by_chance``: chance decided some of them. ``known`` are
    the failures that were known before the run."""

    result: Result
    history: tuple[Seen, ...] = ()
    by_chance: bool = False
    known: KnownFailures = _NOTHING


def judge(
    case: Case,
    subject: Subject,
    *,
    oracle: OracleMaker,
    release: str,
    waiting: Waiting | None = None,
) -> Judgement:
    """Run the scenario and judge it. Faults of the subject, the machine or the harness become a
    verdict, never an exception. ``waiting``: what is known of waits in vain; by default what the
    cases of this subject have shown."""
    started = time.monotonic()
    try:
        topology = topology_of(
            case.machine, release=release, architecture=architecture_of(subject.info)
        )
    except DiscoveryError as error:
        result = _result(case, subject, None, Verdict.SKIP, f"the kubelet would not start: {error}")
        return Judgement(result)
    reason = inapplicable(case.scenario, topology, subject, release)
    reason = reason or contradiction(case.machine, topology, release=release)
    if reason:
        unable = reason == _unable(case.scenario.capabilities, subject)
        return Judgement(_result(case, subject, topology, Verdict.SKIP, reason, unable=unable))
    if reason := _other_settings(case, subject, topology, release):
        return Judgement(_result(case, subject, topology, Verdict.SKIP, reason, unable=True))
    waiting = _WAITING.setdefault(subject, Waiting()) if waiting is None else waiting
    fresh = LockstepNode(subject, case.machine, oracle=oracle, release=release, waiting=waiting)
    with closing(fresh) as node:
        result = _drive(case, subject, node, topology)
    if result.verdict == Verdict.PASS.value:
        waiting.forget()
    return Judgement(
        msgspec.structs.replace(result, seconds=round(time.monotonic() - started, 4)),
        tuple(node.history),
        node.by_chance,
    )


def unjudged(case: Case, subject: Subject, reason: str, story: str) -> Result:
    """The result of a case whose process died before a verdict."""
    return _result(case, subject, None, Verdict.UNKNOWN, reason, explanation=story)


def inapplicable(scenario: Scenario, topology: CPUTopology, subject: Subject, release: str) -> str:
    """Why a scenario does not apply, or ``""``: release, machine, then what the subject lacks."""
    if why := scenario.not_promised_in(release):
        return why
    if scenario.of_fork and not has(release, scenario.of_fork):
        return f"promised by forks with the behaviour {scenario.of_fork.title}"
    return scenario.needs.missing(topology) or _unable(scenario.capabilities, subject)


def _unable(needed: Collection[Capability], subject: Subject) -> str:
    unable = {*needed} - subject.capabilities
    if not unable:
        return ""
    get = subject.lacking if isinstance(subject, CouldDoMore) else {}
    said = sorted(f"{one.value}: {get[one]}" if one in get else one.value for one in unable)
    return f"the subject cannot {'; '.join(said)}"


class _InUse(ReferenceSubject):
    """The model of a node that keeps its owner's settings, all of them (``own``) or those of its
    memory manager (``kept``), and can do what the ``subject`` can."""

    def __init__(
        self, subject: Subject, own: KubeletConfig | None, kept: KubeletConfig, release: str
    ) -> None:
        super().__init__(release=release)
        self.capabilities = subject.capabilities
        self._own, self._kept = own, kept

    def own_config(self, machine: str) -> KubeletConfig | None:
        return self._own

    def memory_manager_of(self, machine: str) -> KubeletConfig:
        return self._kept


def _other_settings(case: Case, subject: Subject, topology: CPUTopology, release: str) -> str:
    """Why a scenario does not apply where the settings of the node's owner must stay: its promise
    does not hold on the model with them. ``""`` if it holds, or scenarios choose settings."""
    name = case.machine.name
    own = subject.own_config(name) if isinstance(subject, HasOwnConfig) else None
    kept = configured(subject, name, KubeletConfig())
    if own is None and kept.memory_manager_policy == "None":
        return ""
    model = _InUse(subject, own, kept, release)
    fresh = LockstepNode(
        model, case.machine, oracle=PromisesOnly, release=release, waiting=Waiting()
    )
    with closing(fresh) as node:
        verdict = _drive(case, model, node, topology).verdict
    if verdict in (Verdict.PASS.value, Verdict.SKIP.value) or not node.history:
        return ""
    if own is None:
        return "the promise does not hold beside the node's own memory manager, which stays"
    cannot = _unable([Capability.CONFIGURE], subject)
    return f"the promise does not hold with the settings of the node's owner, and {cannot}"


def _drive(case: Case, subject: Subject, node: LockstepNode, topology: CPUTopology) -> Result:
    result = partial(_result, case, subject, topology, node=node)

    def could_not_tell(reason: str, evidence: str = "") -> Result:
        story = undecided(_story(case, subject, node), reason, evidence=evidence)
        return result(Verdict.UNKNOWN, reason, explanation=story, evidence=evidence)

    try:
        case.scenario.body(node)
    except Divergence as divergence:
        failure, evidence = divergence.failure, node.evidence()
        story = explanation(_story(case, subject, node), failure, evidence=evidence)
        about: dict[str, Any] = {"failure": failure, "explanation": story, "evidence": evidence}
        return result(Verdict.FAIL, failure.rule, **about)
    except DoesNotApply as error:
        return result(Verdict.SKIP, str(error))
    except SubjectUnable as error:
        return result(Verdict.SKIP, str(error), unable=True)
    except (CouldNotTell, SubjectError) as error:
        return could_not_tell(str(error), error.evidence)
    except Exception as error:  # a check that crashes shows nothing about the subject
        where = "".join(traceback.format_exception(error)[-3:])
        return could_not_tell(f"the harness broke: {type(error).__name__}: {error}", where)
    if not node.history:
        return could_not_tell("the scenario took no step")
    return result(Verdict.PASS, "")


def _story(case: Case, subject: Subject, node: LockstepNode) -> Story:
    return Story(
        scenario=case.scenario,
        subject=subject.info,
        machine=case.machine.name,
        totals=node.totals(),
        steps=node.steps,
        witness=node.witness,
        release=node.release,
        place=case.machine.place,
    )


def _result(
    case: Case,
    subject: Subject,
    topology: CPUTopology | None,
    verdict: Verdict,
    reason: str,
    *,
    node: LockstepNode | None = None,
    **more: Any,
) -> Result:
    """A result with the fields that every result has; ``more``: further fields."""
    scenario = case.scenario
    release = node.release if node else ""
    machine = case.machine
    story = Story(
        scenario, subject.info, machine.name, "", (), release=release, place=machine.place
    )
    return Result(
        scenario=scenario.id,
        title=scenario.title,
        area=scenario.area,
        level=scenario.level.value,
        source=scenario.source.text,
        source_url=scenario.source.url,
        file=f"{scenario.body.__module__.replace('.', '/')}.py",
        machine=machine_record(case.machine, topology),
        verdict=verdict.value,
        reason=reason,
        steps=list(node.steps) if node else [],
        replay=replay_command(story),
        kubelet_errors=list(node.kubelet_errors) if node else [],
        witness=node.witness if node else "",
        observed=observed(node.history, salt=node.salt, larger=node.enlarged_to) if node else None,
        **more,
    )
