"""A subject walks through a history, beside the model, and is judged as in a scenario."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import msgspec

from conformance.judge import Case, Judgement, judge
from conformance.lockstep import CouldNotTell, LockstepNode, OracleMaker
from conformance.oracle import ModelOracle
from conformance.results import Result
from conformance.scenario import Scenario, Source
from conformance.subject import Subject, SubjectUnable
from conformance.verdict import Verdict
from conformance.waiting import Waiting
from hunting.exploring.history import History
from hunting.exploring.settings import machine_of
from reference import IllegalStep, NotModelled
from reference.steps import (
    AwaitCrashLoop,
    DaemonReload,
    OfflineCPUs,
    OnlineCPUs,
    Reboot,
    Spin,
    Step,
)
from reference.view import View

AREA: Final = "explored"
_SOURCE: Final = Source(
    "Documentation: Control CPU Management Policies on the Node",
    "https://kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies/",
)


@dataclass(frozen=True, slots=True)
class Walk:
    """A history to walk under a ``name``; ``replay``: the command that walks it again."""

    name: str
    history: History
    replay: str = ""
    title: str = ""


def scenario_of(walk: Walk, release: str) -> Scenario:
    """The history as a scenario. It promises only what holds for every node. It ends before a step
    that chance has made impossible, and before one that the subject cannot take."""
    task, steps = walk.history.task(release), walk.history.taken

    def body(node: LockstepNode) -> None:
        node.expect_as_modelled()
        node.boot(task.config)
        for step in steps[1:]:
            try:
                take(node, step)
            except (IllegalStep, SubjectUnable):
                return
            except CouldNotTell as error:
                if isinstance(error.__cause__, NotModelled):
                    return
                raise

    title = walk.title or title_of(walk.history)
    return Scenario(f"{AREA}/{walk.name}", title, _SOURCE, body, machine=walk.history.machine)


def title_of(history: History) -> str:
    """The title of a history, with the values of its row that are not plain."""
    values = [f"{name}: {value}" for name, value in history.row.items()]
    return f"A drawn history ({'; '.join(values) or 'steps by chance'})"


def walked(walk: Walk, subject: Subject, release: str) -> Result:
    """The result of the history on this subject."""
    return judged(walk, subject, partial(ModelOracle, release=release), release).result


def judged(walk: Walk, subject: Subject, oracle: OracleMaker, release: str) -> Judgement:
    """As :func:`walked`, with this oracle and with the views. The result has the command of the
    walk. Walks that waited in vain do not shorten the waiting of later ones: a busy host or haste
    may be the reason."""
    case = Case(scenario_of(walk, release), machine_of(walk.history.machine))
    judgement = judge(case, subject, oracle=oracle, release=release, waiting=Waiting())
    result = judgement.result
    if not walk.replay:
        return judgement
    explanation = result.explanation.replace(result.replay, walk.replay)
    result = msgspec.structs.replace(result, replay=walk.replay, explanation=explanation)
    return replace(judgement, result=result)


def take(node: LockstepNode, step: Step) -> None:
    """Let the node take a step. Raises what its methods raise."""
    match step:
        case Reboot(machine=name):
            node.reboot(machine_of(name) if name else None)
        case Spin() | OfflineCPUs() | OnlineCPUs() | DaemonReload() | AwaitCrashLoop():
            raise NotModelled(f"{type(step).__name__}: explored histories do not have this step")
        case _:
            node.take(step)


class _ExplainingOracle(ModelOracle):
    """The model, which keeps in ``why`` the reason that it could not take a step."""

    why = "the subject cannot take it"

    def after(self, step: Step) -> View | None:
        try:
            return super().after(step)
        except NotModelled as error:
            self.why = f"the model does not know: {error}"
            raise
        except IllegalStep as error:
            self.why = f"it is not possible here: {error}"
            raise


def replayed(walk: Walk, subject: Subject, release: str) -> Result:
    """The result of the history on this subject, with the command of the walk. If it passed, its
    reason says why the walk ended before a step; ``""``: it did not."""
    oracles: list[_ExplainingOracle] = []

    def oracle(*args: Any, **kwargs: Any) -> ModelOracle:
        oracles.append(_ExplainingOracle(*args, release=release, **kwargs))
        return oracles[-1]

    judgement = judged(walk, subject, oracle, release)
    result, steps = judgement.result, walk.history.taken
    taken = len(judgement.history)
    if result.verdict != Verdict.PASS.value or taken == len(steps):
        return result
    # The first step of a story is the machine, which no history has.
    end = f"the walk ended before step {taken + 2} ({steps[taken].sentence}): {oracles[-1].why}"
    return msgspec.structs.replace(result, reason=end, steps=result.steps[: taken + 1])
