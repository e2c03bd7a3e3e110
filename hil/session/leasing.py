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
from hil.inspection import NodeFacts
from hil.pods import Image
from hil.pods.apiserver.opening import pod_source_for
from hil.safety import Guarded, NotRestored, Risk
from hil.safety.agent import PLACE
from hil.session.booting import booter
from hil.session.executor import GuardedExecutor
from hil.session.node_session import NodeSession
from hil.shell import NeedsKubelet, NodeError, NodeUnreachable, Shell, outlast_kubelet
from hil.transport import NodeAddress

#: Seconds that a slow machine may take to forget our pods, once their manifests are gone.
_SETTLE: Final = 120.0
#: How many times as long as the slowest step they may take instead, where that is longer, and how
#: many seconds at most.
_TIMES: Final = 5.0
_LONGEST: Final = 900.0


@dataclass(frozen=True, slots=True)
class LeasedNode:
    """A node that is ours."""

    session: NodeSession
    guarded: Guarded

    def give_back(self) -> None:
        """Take our pods away and restore it. Raises :class:`hil.safety.NotRestored` and what the
        shell raises."""
        try:
            self.session.pod_source.close()
        except NodeError as error:
            self._leave()
            left = f"pods of this run may be left in its cluster: {error}"
            raise NotRestored(self.session.name, [left]) from error
        self._leave()

    def _leave(self) -> None:
        # A busy node takes its pods away as slowly as it did everything else.
        patience = min(_LONGEST, _TIMES * self.session.slowest)
        patience = patience if patience > _SETTLE else 0.0
        try:
            self.guarded.leave(patience=patience)
        except NotRestored as error:
            # A run that is ended while its node is off; the lab can switch it on.
            if not (isinstance(error.__cause__, NodeUnreachable) and self.session.in_lab):
                raise
            try:
                self.session.switch_on()
            except SubjectLostError:
                raise error from None
            self.guarded.leave(patience=patience)


def lease_node(
    address: NodeAddress,
    shell: Shell,
    facts: NodeFacts,
    *,
    risk: Risk,
    image: Image,
    say: Callable[[str], None] = lambda _: None,
) -> LeasedNode:
    """Take a node for a run; ``say`` gets what it is waited for. Raises
    :class:`hil.shell.NodeUnfit`, :class:`hil.safety.NodeBusy` and what the shell and an API
    server raise."""
    if risk >= Risk.KUBELET_RESTART:
        outlast_kubelet(shell)
    static = address.kubeconfig is None
    guarded = Guarded(shell, facts, risk, allow=address.allow, static_pods=static, settle=_SETTLE)
    with contextlib.ExitStack() as stack:
        stack.enter_context(guarded)
        if risk >= Risk.REBOOT and isinstance(shell, NeedsKubelet):
            shell.outlast_boot(PLACE)
        # The lease is ours: what a run before left in the cluster may go.
        pod_source = pod_source_for(address, facts, image)
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
