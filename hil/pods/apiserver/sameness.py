"""Is a pod that an API server took the one that it was given? Pure.

Admission plugins and webhooks may add containers and change resources, a server without a feature
drops its fields without a word, and either would make the kubelet do right by another pod than the
one that is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from reference.errors import QuantityError
from reference.pods.quantity import quantity

_RESOURCES: Final = ("cpu", "memory")
_SPEC: Final = ("nodeName", "hostNetwork", "restartPolicy")


def changes(given: Mapping[str, Any], taken: Mapping[str, Any]) -> list[str]:
    """What differs between two manifests in what decides a pod's CPUs, one line each; quantities
    by value, and a request that follows from a limit counts as given."""
    ours, theirs = given["spec"], taken.get("spec") or {}
    found = [
        f"{name} is {theirs.get(name)!r}, not {ours[name]!r}"
        for name in _SPEC
        if name in ours and theirs.get(name) != ours[name]
    ]
    found += _resources("the pod", ours, theirs, whole=True)
    for kind in ("initContainers", "containers"):
        found += _containers(kind, ours.get(kind) or [], theirs.get(kind) or [])
    return found


def _containers(kind: str, ours: list[Any], theirs: list[Any]) -> Iterator[str]:
    wanted, present = [one["name"] for one in ours], [one.get("name") for one in theirs]
    if wanted != present:
        yield f"{kind} are {', '.join(map(str, present)) or 'none'}, not {', '.join(wanted)}"
        return
    for mine, other in zip(ours, theirs, strict=True):
        name = f"container {mine['name']}"
        if mine.get("restartPolicy") != other.get("restartPolicy"):
            yield f"restartPolicy of {name} is {other.get('restartPolicy')!r}"
        yield from _resources(name, mine, other)


def _resources(
    name: str, ours: Mapping[str, Any], theirs: Mapping[str, Any], *, whole: bool = False
) -> Iterator[str]:
    wanted, present = _complete(ours.get("resources")), _complete(theirs.get("resources"))
    if whole and wanted:
        # A pod's own requests that are not stated follow from its containers' and its limits.
        stated = (ours["resources"].get("requests") or {}).keys()
        free = {f"{one} request" for one in _RESOURCES if one not in stated}
        wanted = {what: value for what, value in wanted.items() if what not in free}
        present = {what: value for what, value in present.items() if what not in free}
    for what in sorted(wanted.keys() | present.keys()):
        mine, other = wanted.get(what), present.get(what)
        if _value(mine) != _value(other):
            yield f"{what} of {name} is {other or 'none'}, not {mine or 'none'}"


def _complete(resources: Mapping[str, Any] | None) -> dict[str, str]:
    """Limits and requests, by what they are of: only what decides CPUs and the QoS class."""
    limits = (resources or {}).get("limits") or {}
    requests = {**limits, **((resources or {}).get("requests") or {})}
    found = {f"{one} limit": str(limits[one]) for one in _RESOURCES if one in limits}
    found |= {f"{one} request": str(requests[one]) for one in _RESOURCES if one in requests}
    return found


def _value(text: str | None) -> object:
    try:
        return None if text is None else quantity(text)
    except QuantityError:
        return text
