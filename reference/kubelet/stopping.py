"""A pod that was deleted, and whose containers take their time to end.

What belongs here: when the model knows what becomes of such a pod, and whether it is active. What
never does: what its life cycle makes of that (``kubelet``).
"""

from __future__ import annotations

from typing import Final

from reference.errors import IllegalStep, NotModelled
from reference.kubelet.kubelet import Kubelet
from reference.releases import AnyRelease, minor_of
from reference.steps import ApplyTogether, EndStopping, KubeletConfig, ReplaceStopping, Step
from reference.view import Phase

#: The oldest release whose kubelets were seen while containers took their time to end.
_SEEN_SINCE: Final = 26


def active_while_stopping(config: KubeletConfig) -> bool:
    """A pod of an API server is active until its containers have ended
    (``IsPodKnownTerminated``). A static pod is not, because the pod manager has forgotten it
    (``HandlePodRemoves``, ``GetActivePods``). Seen on 1.26.15, 1.32.2, 1.36.4 and 1.37.0."""
    return config.api_server


def require_order(step: Step, stopping: str, *, disturbed: bool) -> None:
    """While the pod ``stopping`` stops, nothing but its end is modelled. ``disturbed``: the kubelet
    hangs, or is to be killed at a rename. Raises :class:`IllegalStep`, :class:`NotModelled`."""
    name = type(step).__name__
    if isinstance(step, EndStopping):
        if not stopping:
            raise IllegalStep(f"{name}: no pod stops")
    elif stopping:
        raise NotModelled(f"{name} while pod {stopping} still stops")
    if disturbed and isinstance(step, ApplyTogether | ReplaceStopping | EndStopping):
        raise NotModelled(f"{name} of a kubelet that hangs or is to be killed at a rename")


def begin_stopping(kubelet: Kubelet, name: str, *, active: bool, release: AnyRelease) -> None:
    """The pod begins to stop. Raises :class:`IllegalStep` where it does not run, and
    :class:`NotModelled`."""
    known = kubelet.pods.get(name)
    if known is None or known.phase is not Phase.RUNNING:
        raise IllegalStep(f"ReplaceStopping: no pod {name} runs")
    if minor_of(release) < _SEEN_SINCE:
        raise NotModelled(f"ReplaceStopping: pod {name} by release {release}")
    kubelet.begin_stopping(name, active=active)
