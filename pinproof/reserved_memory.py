"""The memory manager's settings in the documents of a KubeletConfiguration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from conformance.subject import SubjectUsageError
from reference.errors import QuantityError
from reference.pods.quantity import quantity, value
from topologies.errors import one_line

_POLICIES: Final = ("None", "Static")


@dataclass(frozen=True, slots=True)
class Memory:
    """``reserved``: the quantity by NUMA node, or ``None`` unless each node has one entry, of
    memory alone. ``pages``: the first quantity of each size of huge pages, by the name of the
    resource."""

    policy: str
    reserved: Mapping[int, str] | None
    pages: Mapping[str, str]


def memory_in(shape: Mapping[str, Any], where: str) -> Memory:
    """The memory manager's policy, and ``reservedMemory``. Raises :class:`SubjectUsageError` with
    ``where`` and the field at fault."""
    policy = shape.get("memoryManagerPolicy") or "None"
    if policy not in _POLICIES:
        raise fault(where, f"memoryManagerPolicy {policy!r}: it is None or Static")
    rows = shape.get("reservedMemory") or []
    if not isinstance(rows, list):
        raise fault(where, "reservedMemory: not a list")
    reserved: dict[int, str] = {}
    pages: dict[str, str] = {}
    alone = True
    for row in rows:
        node, amounts = _row(row, where)
        alone = alone and set(amounts) == {"memory"} and node not in reserved
        for amount in amounts.values():
            if in_bytes(amount, f"{where}: reservedMemory: NUMA node {node}") <= 0:
                raise fault(where, f"reservedMemory: NUMA node {node}: it has to be more than 0")
        for kind in sorted(map(str, amounts)):
            if kind.startswith("hugepages-"):
                pages.setdefault(kind, str(amounts[kind]))
        reserved[node] = str(amounts.get("memory", ""))
    return Memory(policy, reserved if alone else None, pages)


def _row(row: object, where: str) -> tuple[int, Mapping[str, Any]]:
    if isinstance(row, dict):
        node, amounts = row.get("numaNode") or 0, row.get("limits")
        is_number = isinstance(node, int) and not isinstance(node, bool)
        if is_number and isinstance(amounts, dict) and amounts:
            return node, amounts
    raise fault(where, "reservedMemory: an entry is numaNode and limits")


def in_bytes(amount: object, where: str) -> int:
    """A quantity of memory. Raises :class:`SubjectUsageError`."""
    if isinstance(amount, bool) or not isinstance(amount, str | int):
        raise SubjectUsageError(f"{where}: not a quantity")
    try:
        return value(quantity(str(amount)))
    except (QuantityError, ValueError) as error:
        raise SubjectUsageError(f"{where}: {one_line(str(error), 100)}") from error


def fault(where: str, why: str) -> SubjectUsageError:
    """The error for a configuration, on one line."""
    return SubjectUsageError(one_line(f"{where}: {why}", 300))
