"""Whether an API server took a pod as it was given. Pure.

Admission plugins and webhooks may add containers and change resources, and a server without a
feature drops its fields without a message. In both cases the kubelet would run another pod than the
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
    """The differences of two manifests in what decides a pod's CPUs, one line each. Quantities are
    compared by value, and a request that follows from a limit counts as given."""
    given_spec, taken_spec = given["spec"], taken.get("spec") or {}
    found = [
        f"{name} is {taken_spec.get(name)!r}, not {given_spec[name]!r}"
        for name in _SPEC
        if name in given_spec and taken_spec.get(name) != given_spec[name]
    ]
    found += _resources("the pod", given_spec, taken_spec, whole=True)
    for kind in ("initContainers", "containers"):
        found += _containers(kind, given_spec.get(kind) or [], taken_spec.get(kind) or [])
    return found


def _containers(kind: str, given: list[Any], taken: list[Any]) -> Iterator[str]:
    wanted, present = [one["name"] for one in given], [one.get("name") for one in taken]
    if wanted != present:
        yield f"{kind} are {', '.join(map(str, present)) or 'none'}, not {', '.join(wanted)}"
        return
    for given_container, taken_container in zip(given, taken, strict=True):
        name = f"container {given_container['name']}"
        if given_container.get("restartPolicy") != taken_container.get("restartPolicy"):
            yield f"restartPolicy of {name} is {taken_container.get('restartPolicy')!r}"
        yield from _resources(name, given_container, taken_container)


def _resources(
    name: str, given: Mapping[str, Any], taken: Mapping[str, Any], *, whole: bool = False
) -> Iterator[str]:
    wanted, present = _complete(given.get("resources")), _complete(taken.get("resources"))
    if whole and wanted:
        # A pod's own requests that are not stated follow from its containers' and its limits.
        stated = (given["resources"].get("requests") or {}).keys()
        free = {f"{one} request" for one in _RESOURCES if one not in stated}
        wanted = {what: value for what, value in wanted.items() if what not in free}
        present = {what: value for what, value in present.items() if what not in free}
    for what in sorted(wanted.keys() | present.keys()):
        given_text, taken_text = wanted.get(what), present.get(what)
        if _value(given_text) != _value(taken_text):
            yield f"{what} of {name} is {taken_text or 'none'}, not {given_text or 'none'}"


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
