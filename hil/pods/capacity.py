"""Whether there is room. Static pods are critical: a kubelet that lacks room for one evicts others'
pods (``pkg/kubelet/preemption``), so pinproof's must fit beside those."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hil.observation.places import OURS
from hil.shell import NodeUnfit
from reference.pods.qos import pod_milli_cpus
from reference.pods.quantity import milli_value, quantity
from reference.steps import Pod

_NEVER_EVICTED: Final = ("Succeeded", "Failed")


def refuse_if_crowded(pod: Pod, pods_text: str, allocatable: int, *, static: bool = True) -> None:
    """Raise :class:`hil.shell.NodeUnfit` where ``pod`` does not fit beside the pods of others that
    the kubelet lists; ``allocatable`` is the node's, in thousandths of a CPU. A pod that is not
    ``static`` evicts no pod: the kubelet would refuse it."""
    foreign = list(_foreign(pods_text))
    used = sum(_requested(item) for item in foreign)
    wanted = pod_milli_cpus(pod)
    if foreign and used + wanted > allocatable:
        so = "as a static pod it would evict them" if static else "the kubelet has no room for it"
        raise NodeUnfit(
            f"pod {pod.name} requests {wanted}m of CPU and {len(foreign)} pods of others hold "
            f"{used}m of {allocatable}m: {so}"
        )


def _foreign(pods_text: str) -> Iterable[Mapping[str, Any]]:
    for item in json.loads(pods_text).get("items") or []:
        name = str(item["metadata"]["name"])
        phase = (item.get("status") or {}).get("phase")
        if not name.startswith(OURS) and phase not in _NEVER_EVICTED:
            yield item


def _requested(item: Mapping[str, Any]) -> int:
    containers = (item.get("spec") or {}).get("containers") or []
    return sum(
        milli_value(quantity(requests["cpu"]))
        for each in containers
        if "cpu" in (requests := (each.get("resources") or {}).get("requests") or {})
    )
