"""Real nodes that are reached and read, and then only told what a run would do to them.

What belongs here: how such nodes are taken and given back. What never does: the walk
(:mod:`hil.dry_run.walking`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from conformance.subject import SubjectSetupError
from hil.distributions import distribution_of
from hil.dry_run.ledger import Ledger
from hil.dry_run.node import DryRunNode, DryRunSession
from hil.dry_run.pods import DryRunPods
from hil.dry_run.shell import DryRunExecutor, DryRunShell
from hil.inspection import NodeFacts
from hil.observation import Observation
from hil.pods import Image, PodSource
from hil.safety import Change, Guarded, Risk
from hil.session.booting import Boot, booter
from hil.session.executor import GuardedExecutor
from hil.session.node_session import NodeSession
from hil.shell import NodeError, Shell
from hil.subject import NodeSubject
from hil.transport import NodeAddress
from reference.steps import KubeletConfig
from topologies import Machine


class DryRunSubject(NodeSubject):
    """:class:`hil.subject.NodeSubject` that changes nothing; ``ledger`` is told everything."""

    def __init__(self, *words: Any, **named: Any) -> None:
        """As :class:`hil.subject.NodeSubject`."""
        super().__init__(*words, **named)
        self.ledger = Ledger()
        self._sessions: dict[str, tuple[DryRunSession, Guarded]] = {}

    @classmethod
    def opened(
        cls,
        target: str,
        ledger: Ledger,
        progress: Callable[[str], None] = lambda stage: None,
    ) -> DryRunSubject:
        """Reach every node that ``target`` names, and read what it is. Raises as
        :meth:`hil.subject.NodeSubject.open`."""
        made = cls.open(target, progress)
        assert isinstance(made, DryRunSubject)
        made.ledger = ledger
        return made

    def _made(
        self,
        session: NodeSession,
        machine: Machine,
        config: KubeletConfig,
        fresh: Observation | None,
        *,
        machines: Callable[[str], Machine],
        shaping: tuple[Change, ...],
    ) -> DryRunNode:
        assert isinstance(session, DryRunSession)
        return DryRunNode(
            session, config, fresh, machine=machine, machines=machines, shaping=shaping
        )

    def _session(self, reached: Any) -> DryRunSession:
        name = reached.facts.name
        if name not in self._sessions:
            options = self._options
            try:
                self._sessions[name] = dry_take(
                    reached.address,
                    reached.shell,
                    reached.facts,
                    self.ledger,
                    risk=options.risk_on(reached.address),
                    image=options.image_on(reached.address),
                )
            except NodeError as error:
                raise SubjectSetupError(str(error), evidence=error.evidence) from error
        return self._sessions[name][0]

    @property
    def trips(self) -> dict[str, tuple[int, int]]:
        """None were made."""
        return {}

    def close(self) -> None:
        """Tell how every node is restored, and let go of it."""
        if self._closed:
            return
        for session, guarded in self._sessions.values():
            self.ledger.scenario, self.ledger.step = "", "restore the node and end the lease"
            session.pod_source.close()
            guarded.leave()
        super().close()


def dry_take(
    address: NodeAddress,
    shell: Shell,
    facts: NodeFacts,
    ledger: Ledger,
    *,
    risk: Risk,
    image: Image,
) -> tuple[DryRunSession, Guarded]:
    """As :func:`hil.session.leasing.lease_node`: tell how a node is taken. ``shell`` runs
    nothing. Raises :class:`hil.shell.NodeUnfit` for a node that a run would refuse."""
    told = DryRunShell(facts.name, ledger)
    before = ledger.scenario, ledger.step
    ledger.scenario, ledger.step = "", "lease the node: lease, journal, dead-man timer"
    static = address.kubeconfig is None
    guarded = Guarded(told, facts, risk, "dry-run", allow=address.allow, static_pods=static)
    with contextlib.ExitStack() as stack:
        stack.enter_context(guarded)
        ledger.scenario, ledger.step = before
        session = DryRunSession(
            address.name,
            facts,
            distribution_of(facts, named=address.distribution),
            executor=DryRunExecutor(GuardedExecutor(told, guarded), told),
            ledger=ledger,
            risk=risk,
            image=image,
            pod_source=_pod_source(address, facts, image, told),
            boot=_boot(address, shell, told),
            spec=address.lab,
        )
        stack.pop_all()
    return session, guarded


def _pod_source(
    address: NodeAddress, facts: NodeFacts, image: Image, told: DryRunShell
) -> PodSource | None:
    if address.kubeconfig is None:
        return None
    from hil.pods.apiserver import node_name

    space = address.namespace or "pinproof-MADE-UP"
    return DryRunPods(told, node_name(address.node, facts), space, image)


def _boot(address: NodeAddress, shell: Shell, told: DryRunShell) -> Boot | None:
    if booter(address, shell) is None:
        return None

    def boot(machine: str) -> None:
        if address.lab:
            told.run(f"# beside the runner: pinproof lab reboot {address.name} {machine}".strip())
        else:
            told.run("systemctl reboot --no-block")

    return boot
