"""What a kubelet says of its pods (``GET /pods``), understood. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class NoList(Exception):
    """What the kubelet said is no list of pods."""


@dataclass(frozen=True, slots=True)
class PodStatus:
    """A pod as the kubelet lists it; the API's own words. ``restarts``: how often each container
    was started again; ``cpu_requests``: in whole and parts, of the pod's containers together."""

    uid: str
    namespace: str
    name: str
    phase: str
    reason: str
    message: str
    qos: str
    restarts: Mapping[str, int]


def read_pods(text: str) -> list[PodStatus]:
    """All pods in the answer; raises :class:`NoList`."""
    try:
        items = json.loads(text)["items"] or []
        return [_status(item) for item in items]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoList(f"the kubelet's list of pods is not understood: {error!r}") from error


def _status(item: Mapping[str, Any]) -> PodStatus:
    metadata, status = item["metadata"], item.get("status") or {}
    containers = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    return PodStatus(
        uid=str(metadata["uid"]),
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata["name"]),
        phase=str(status.get("phase", "")),
        reason=str(status.get("reason", "")),
        message=str(status.get("message", "")),
        qos=str(status.get("qosClass", "")),
        restarts={str(each["name"]): int(each.get("restartCount", 0)) for each in containers},
    )
