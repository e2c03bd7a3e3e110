"""Reads the list of pods of a kubelet (``GET /pods``) or of an API server. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hil.answers import whole
from topologies.errors import one_line

#: RecursionError: lists within lists, by the thousand.
_NOT_A_LIST: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class NoList(Exception):
    """What the kubelet or the API server said is no list of pods."""


@dataclass(frozen=True, slots=True)
class PodStatus:
    """A pod as it is listed; the API's own words. By container: ``restarts``, how often it was
    started again, ``container_ids``, what the runtime calls it (without the runtime's name), and
    ``waits``, why it does not run yet.
    ``leaving``: it was deleted, and is not gone yet."""

    uid: str
    namespace: str
    name: str
    phase: str
    reason: str
    message: str
    qos: str
    restarts: Mapping[str, int]
    container_ids: Mapping[str, str] = field(default_factory=dict)
    leaving: bool = False
    waits: Mapping[str, str] = field(default_factory=dict)


def read_pods(text: str) -> list[PodStatus]:
    """All pods in the answer; raises :class:`NoList`."""
    try:
        items = json.loads(text)["items"] or []
        return [_status(item) for item in items]
    except _NOT_A_LIST as error:
        said = f"{type(error).__name__}: {one_line(str(error))}"
        raise NoList(f"the list of pods cannot be parsed: {said}") from error


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
        restarts={
            str(each["name"]): whole(str(each.get("restartCount", 0))) for each in containers
        },
        container_ids={
            str(each["name"]): str(each["containerID"]).rpartition("//")[2]
            for each in containers
            if each.get("containerID")
        },
        leaving=bool(metadata.get("deletionTimestamp")),
        waits={
            str(each["name"]): str(waiting.get("reason", ""))
            for each in containers
            if (waiting := (each.get("state") or {}).get("waiting"))
        },
    )
