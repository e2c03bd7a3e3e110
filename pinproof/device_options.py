"""``--device``: the devices of a node, by the NUMA nodes that they are near to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from conformance.subject import SubjectUsageError
from pinproof.simulation import Devices
from reference.steps import Device

#: What the API takes as the name of an extended resource: it has a domain.
_RESOURCE: Final = re.compile(r"[a-z0-9][a-z0-9.-]*/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_PLACES: Final = re.compile(r"(-|[0-9]{1,3}(\+[0-9]{1,3})*)(,(-|[0-9]{1,3}(\+[0-9]{1,3})*))*")
_FORM: Final = (
    "it is RESOURCE=NODES, as nvidia.com/gpu=0,0,1: a NUMA node for each device, where 0+1 is near "
    "to both and - names none"
)


def devices_given(texts: Iterable[str] | None) -> Devices:
    """The devices by resource; the ids are made of its name and a number. Raises
    :class:`SubjectUsageError`."""
    found: dict[str, list[Device]] = {}
    for text in texts or ():
        resource, _, places = text.partition("=")
        if not (_RESOURCE.fullmatch(resource) and _PLACES.fullmatch(places)):
            raise SubjectUsageError(f"--device {text!r}: {_FORM}")
        if resource in found:
            raise SubjectUsageError(f"--device {resource}: given twice")
        found[resource] = list(_devices(resource.rpartition("/")[2], places.split(",")))
    return found


def _devices(name: str, places: list[str]) -> Iterator[Device]:
    width = len(str(len(places) - 1))  # ids come in the order of their texts
    for number, place in enumerate(places):
        nodes = () if place == "-" else tuple(sorted({int(one) for one in place.split("+")}))
        yield Device(f"{name}{number:0{width}}", nodes)
