"""Real nodes that are reached and read; what a run would send to them is entered in a ledger.

What belongs here: how such nodes are taken and given back. What never does: the walk
(:mod:`hil.dry_run.walking`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from hil.distributions import distribution_of
from hil.dry_run.ledger import Ledger
from hil.dry_run.node import DryRunNode, DryRunSession
from hil.dry_run.pods import DryRunPods
from hil.dry_run.shell import DryRunExecutor, DryRunShell
from hil.inspection import NodeFacts
from hil.pods import Image, PodSource
from hil.safety import Guarded, Risk
from hil.session.booting import Boot, booter
from hil.session.executor import GuardedExecutor
from hil.session.leasing import LeasedNode
from hil.session.node_session import NodeSession
from hil.shell import Shell
from hil.subject import NodeSubject
from hil.transport import NodeAddress
from topologies import Machine


class DryRunSubject(NodeSubject):
    """:class:`hil.subject.NodeSubject` that changes nothing; ``ledger`` gets every command."""

    def __init__(self, *words: Any, **named: Any) -> None:
        """As :class:`hil.subject.NodeSubject`."""
        super().__init__(*words, **named)
        self.ledger = Ledger()

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
        self, session: NodeSession, machine: Machine, *words: Any, **named: Any
    ) -> DryRunNode:
        assert isinstance(session, DryRunSession)
        return DryRunNode(session, *words, machine=machine, **named)

    def _lease(self, address: NodeAddress, shell: Shell, facts: NodeFacts) -> LeasedNode:
        options = self._options
        return dry_lease(
            address,
            shell,
            facts,
            self.ledger,
            risk=options.risk_on(address),
            image=options.image_on(address),
        )

    @property
    def trips(self) -> dict[str, tuple[int, int]]:
        """None were made."""
        return {}

    def _restoring(self, name: str) -> None:
        self.ledger.scenario, self.ledger.step = "", "restore the node and end the lease"


def dry_lease(
    address: NodeAddress,
    shell: Shell,
    facts: NodeFacts,
    ledger: Ledger,
    *,
    risk: Risk,
    image: Image,
) -> LeasedNode:
    """As :func:`hil.session.leasing.lease_node`: enter how a node is leased. ``shell`` runs
    nothing. Raises :class:`hil.shell.NodeUnfit` for a node that a run would refuse."""
    silent = DryRunShell(facts.name, ledger)
    before = ledger.scenario, ledger.step
    ledger.scenario, ledger.step = "", "lease the node: lease, journal, dead-man timer"
    static = address.kubeconfig is None
    guarded = Guarded(silent, facts, risk, "dry-run", allow=address.allow, static_pods=static)
    with contextlib.ExitStack() as stack:
        stack.enter_context(guarded)
        ledger.scenario, ledger.step = before
        session = DryRunSession(
            address.name,
            facts,
            distribution_of(facts, named=address.distribution),
            executor=DryRunExecutor(GuardedExecutor(silent, guarded), silent),
            ledger=ledger,
            risk=risk,
            image=image,
            pod_source=_pod_source(address, facts, image, silent),
            boot=_boot(address, shell, silent),
            spec=address.lab,
        )
        stack.pop_all()
    return LeasedNode(session, guarded)


def _pod_source(
    address: NodeAddress, facts: NodeFacts, image: Image, silent: DryRunShell
) -> PodSource | None:
    if address.kubeconfig is None:
        return None
    from hil.pods.apiserver import node_name

    space = address.namespace or "pinproof-MADE-UP"
    return DryRunPods(silent, node_name(address.node, facts), space, image)


def _boot(address: NodeAddress, shell: Shell, silent: DryRunShell) -> Boot | None:
    if booter(address, shell) is None:
        return None

    def boot(machine: str) -> None:
        if address.lab:
            silent.run(f"# beside the runner: pinproof lab reboot {address.name} {machine}".strip())
        else:
            silent.run("systemctl reboot --no-block")

    return boot
