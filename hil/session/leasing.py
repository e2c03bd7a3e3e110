"""Taking a node, and giving it back as it was.

What belongs here: the guard around a node, and what has to be undone in which order. What never
does: how anything is undone (:mod:`hil.safety`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from conformance.subject import SubjectLostError
from hil.distributions import distribution_of
from hil.inspection import NodeFacts, gather, kubelet_of
from hil.pods import Image, PodSource
from hil.pods.apiserver.opening import pod_source_for, swept
from hil.safety import Guarded, NotRestored, OwnPods, Risk
from hil.safety.agent import PLACE
from hil.session.booting import booter
from hil.session.executor import GuardedExecutor
from hil.session.node_session import NodeSession
from hil.shell import (
    NeedsKubelet,
    NodeError,
    NodeUnfit,
    NodeUnreachable,
    Shell,
    outlast_kubelet,
)
from hil.transport import NodeAddress

#: Seconds that a slow machine may take to forget the run's pods without their manifests.
_SETTLE: Final = 120.0
#: Instead they may take this many times the slowest round trip, where that is longer, up to this
#: many seconds.
_TIMES: Final = 5.0
_LONGEST: Final = 900.0


@dataclass(frozen=True, slots=True)
class LeasedNode:
    """A node that this run holds."""

    session: NodeSession
    guarded: Guarded

    def give_back(self) -> None:
        """Remove the run's pods and restore the node. Raises :class:`hil.safety.NotRestored` and
        what the shell raises."""
        left: list[str] = []
        try:
            self.session.pod_source.close()
        except NodeError as error:
            left = [f"pods of this run may be left in its cluster: {error}"]
        finally:  # an interrupt, too
            self._leave()
        if left:
            raise NotRestored(self.session.name, left)

    def _leave(self) -> None:
        # A busy node takes its pods away as slowly as it did everything else.
        patience = min(_LONGEST, _TIMES * self.session.slowest)
        patience = patience if patience > _SETTLE else 0.0
        try:
            self.guarded.leave(patience=patience)
        except NotRestored as error:
            # The run was ended while its node is off; the lab can switch it on.
            if not (isinstance(error.__cause__, NodeUnreachable) and self.session.in_lab):
                raise
            try:
                self.session.switch_on()
            except SubjectLostError:
                raise error from None
            self.guarded.leave(patience=patience)


def claim(guarded: Guarded, pod_source: PodSource) -> None:
    """Tell the node the namespace of the run's pods, before the first one comes."""
    if pod_source.namespace:
        guarded.change(OwnPods(pod_source.namespace))


def require_same(before: NodeFacts, now: NodeFacts) -> None:
    """Raises :class:`NodeUnfit` where undoing what an earlier run left has changed the node's
    facts: the node would be judged by the configuration of that run."""
    if _compared(before) != _compared(now):
        raise NodeUnfit(
            f"{before.name}: a run before had left its kubelet or its CPUs changed; now that is "
            "undone: run this again"
        )


def _compared(facts: NodeFacts) -> tuple[object, ...]:
    kubelet = kubelet_of(facts)
    return facts.online, kubelet.version, kubelet.settings, kubelet.flags


def lease_node(
    address: NodeAddress,
    shell: Shell,
    facts: NodeFacts,
    *,
    risk: Risk,
    image: Image,
    say: Callable[[str], None] = lambda _: None,
) -> LeasedNode:
    """Take a node for a run; ``say`` gets what the run waits for. Raises
    :class:`hil.shell.NodeUnfit`, :class:`hil.safety.NodeBusy` and what the shell and an API server
    raise."""
    if risk >= Risk.KUBELET_RESTART:
        outlast_kubelet(shell)
    static = address.kubeconfig is None
    guarded = Guarded(shell, facts, risk, allow=address.allow, static_pods=static, settle=_SETTLE)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(guarded)
        except NotRestored:
            # Pods that an earlier run left in the cluster may be what differs.
            if not swept(address, facts):
                raise
            stack.enter_context(guarded)
        if facts.leftovers:
            require_same(facts, gather(shell, paths=address.kubelet))
        if risk >= Risk.REBOOT and isinstance(shell, NeedsKubelet):
            shell.outlast_boot(PLACE)
        # The lease is held: what an earlier run left in the cluster may be removed.
        pod_source = pod_source_for(address, facts, image)
        claim(guarded, pod_source)
        session = NodeSession(
            address.name,
            GuardedExecutor(shell, guarded),
            facts,
            distribution_of(facts),
            risk=risk,
            image=image,
            pod_source=pod_source,
            boot=booter(address, shell),
            spec=address.lab,
            say=say,
        )
        stack.pop_all()
    return LeasedNode(session, guarded)
