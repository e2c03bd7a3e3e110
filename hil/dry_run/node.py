"""A node to which nothing is sent, and whose answers come from the model.

What belongs here: :class:`DryRunSession`, the node of a whole run, and :class:`DryRunNode`, that
node for one scenario. What never does: commands; those are made where they are for a real run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.oracle import ModelOracle
from hil.dry_run.assumed import Assumed
from hil.dry_run.ledger import Ledger
from hil.dry_run.shell import DryRunExecutor, NotSent
from hil.inspection import kubelet_of
from hil.observation import Observation
from hil.safety import Change
from hil.session.node import RealNode
from hil.session.node_session import NodeSession, cpus_of
from hil.session.scripts import Act
from reference import Release
from reference.steps import (
    AskPodResources,
    AwaitCrashLoop,
    Delete,
    KubeletConfig,
    OfflineCPUs,
    OnlineCPUs,
    Reboot,
    Spin,
    Start,
    Step,
)
from reference.view import View
from topologies import Machine


class DryRunSession(NodeSession):
    """:class:`hil.session.node_session.NodeSession` that sends nothing: at first its state file is
    that of the facts, from then on what the scenario's node assumes."""

    def __init__(self, *words: Any, executor: DryRunExecutor, ledger: Ledger, **named: Any) -> None:
        name, facts, distribution = words
        super().__init__(name, executor, facts, distribution, **named)
        self.ledger = ledger
        self._dry_executor = executor
        first = View(running=True, state_file=kubelet_of(facts).state_file)
        own = Assumed(facts.online).look(first, ())
        #: How often its kubelet was started.
        self.starts = 0
        #: Answers every look.
        self.answer: Callable[[], Observation] = lambda: own

    def act(self, act: Act, *, spin: bool = False, log: bool = False) -> Observation:
        """Enter the act in the ledger; the observation that is assumed after it."""
        self._dry_executor.looking(not act.changes and not act.script.strip() and not spin)
        try:
            super().act(act, spin=spin, log=log)
        except NotSent:
            return self.answer()
        raise AssertionError("a dry run has sent something")


class DryRunNode(RealNode):
    """:class:`hil.session.node.RealNode` beside a model that says how each step ends."""

    def __init__(
        self,
        session: DryRunSession,
        config: KubeletConfig,
        fresh: Observation | None,
        *,
        machine: Machine,
        machines: Callable[[str], Machine],
        shaping: tuple[Change, ...] = (),
    ) -> None:
        super().__init__(session, config, fresh, machines=machines, shaping=shaping)
        self._dry_session = session
        self._oracle = ModelOracle(
            machine, config, machines=machines, release=kubelet_of(session.facts).release
        )
        self._assumed = Assumed(
            cpus_of(machine),
            starts=session.starts,
            reports_pool=Release.parse(kubelet_of(session.facts).release).minor < 23,
        )
        self._view_of_model = View(running=False)
        session.answer = self._answer

    def do(self, step: Step) -> None:
        """Enter what the step sends."""
        self._dry_session.ledger.step = step.sentence
        self._assume(step)
        super().do(step)

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        """Do not wait."""
        return self._view()

    def close(self) -> None:
        """Enter what deletes the pods."""
        if not self._closed:
            self._dry_session.ledger.step = "delete the pods of this run"
            for name in [*self._pods]:
                self._assume(Delete(name))
        super().close()

    def _assume(self, step: Step) -> None:
        self._view_of_model = self._oracle.after(step) or self._view_of_model
        assumed = self._assumed
        assumed.spun, assumed.asked = isinstance(step, Spin), isinstance(step, AskPodResources)
        match step:
            case Start() if self._fresh is None:
                self._dry_session.starts += 1
                assumed.starts, assumed.restarts = self._dry_session.starts, 0
            case AwaitCrashLoop():
                assumed.restarts += 1
            case Reboot(machine=machine):
                assumed.online = cpus_of(self._machines(machine)) if machine else assumed.online
            case OfflineCPUs(cpus=cpus):
                assumed.online -= cpus
            case OnlineCPUs(cpus=cpus):
                assumed.online |= cpus

    def _answer(self) -> Observation:
        return self._assumed.look(self._view_of_model, [*self._ever.values()])
