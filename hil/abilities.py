"""The capabilities of a node, and why it lacks the others.

What belongs here: capabilities by facts, risk and distribution. What never does: doing any of it
(:mod:`hil.session`).
"""

from __future__ import annotations

from typing import Final

from conformance.subject import NOT_OF_REAL_NODES, Capability
from hil.distributions import distribution_of
from hil.inspection import NodeFacts
from hil.observation import Places
from hil.safety import Risk
from hil.safety.risk import RISK_OF

#: Capabilities that take a kubelet that is stopped and started.
_RESTARTS: Final = frozenset(
    one for one, risk in RISK_OF.items() if risk in (Risk.KUBELET_RESTART, Risk.REBOOT)
)


def unable(facts: NodeFacts) -> dict[Capability, str]:
    """What no risk permits on a node of this distribution, each with its reason in one line."""
    kind = distribution_of(facts)
    if facts.kubelet is None:
        return {}
    if why := kind.cannot_restart(facts):
        return dict.fromkeys(_RESTARTS, why)
    if why := kind.cannot_configure(facts):
        return {Capability.CONFIGURE: why}
    if why := kind.lost_at_boot(facts):
        return {Capability.REBOOT: why}
    return {}


def capabilities(
    facts: NodeFacts, risk: Risk, *, boots: bool, server: bool = False
) -> frozenset[Capability]:
    """The capabilities of a node at this risk. ``boots``: it may be booted again; ``server``: its
    pods come through an API server, which reports rejections."""
    can = {one for one in Capability if RISK_OF.get(one, Risk.REBOOT) <= risk}
    can -= NOT_OF_REAL_NODES
    if not Places.of(facts).pods_url and not server:
        can.discard(Capability.REJECTIONS)
    if facts.cgroup.version != 2:
        # On v1 a CPU that comes online again returns to the root's cpuset alone. The model has no
        # such kernel; the guard restores the other cpusets.
        can.discard(Capability.HOTPLUG)
    if facts.systemd == 0:
        can -= {Capability.SERVICES, Capability.RUNTIME, Capability.START_ERROR}
    if not boots:
        can.discard(Capability.REBOOT)
    return frozenset(can - unable(facts).keys())
