"""The memory manager of a KubeletConfiguration: its policy, and what each NUMA node reserves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pinproof.files import documents
from pinproof.kubelet_configuration import NO_MEMORY, only_one
from pinproof.node_archive import CONFIG, FOLDER
from pinproof.reserved_memory import fault, in_bytes, memory_in
from pinproof.settings import Given, Settings, pairs
from reference.releases import minor_of
from reference.steps import KubeletConfig
from topologies import Machine
from topologies.errors import one_line

NOT_ALONE: Final = "reservedMemory must have one entry for each NUMA node, with memory only"
_HELD: Final = (
    "which memory the pods of the state file have is not read: only CPUs decide the NUMA nodes here"
)
LEFT_OUT: Final = "the Memory Manager is left out"
_UNCHECKED: Final = (
    "evictionHard is a share of the memory: whether reservedMemory adds up to it is not checked"
)
#: The first release whose memory manager is modelled.
_SINCE: Final = 26
#: ``memory.available`` of ``evictionHard`` where it is not given (``DefaultEvictionHard``).
_THRESHOLD: Final = "100Mi"


def with_memory(config: KubeletConfig, path: Path) -> KubeletConfig:
    """The configuration with the memory manager of this KubeletConfiguration. Raises
    :class:`SubjectUsageError` where it reserves what is not modelled."""
    where = one_line(str(path))
    found = memory_in(only_one(documents(path), where), where)
    if found.policy == "None":
        return config
    if not found.reserved:
        raise fault(where, NOT_ALONE)
    return replace(config, memory_manager_policy=found.policy, reserved_memory=dict(found.reserved))


def is_left_out(notes: Iterable[str]) -> bool:
    """Whether the node of these notes has a memory manager that was left out."""
    return any(one in (NO_MEMORY, _HELD) or one.startswith(LEFT_OUT) for one in notes)


def with_memory_where_modelled(
    settings: Settings, given: Given, *, release: str, has_state: bool = False
) -> Settings:
    """The settings with the memory manager of the file, and a note where it is left out.
    ``has_state``: pods ran before, whose memory is not known. Raises :class:`SubjectUsageError` for
    settings with which the kubelet would not start."""
    if given.config is None:
        return settings
    where = one_line(str(given.config))
    shape = only_one(documents(given.config), where)
    found = memory_in(shape, where)
    if found.policy == "None":
        return settings
    if found.reserved == {}:
        why = "[memorymanager] you should specify the system reserved memory"
        raise fault(where, f"the kubelet would not start: {why}")
    if found.pages and minor_of(release) >= _SINCE:
        raise fault(where, f"the kubelet would not start: {_pages_reserved(found.pages)}")
    if found.reserved is None or minor_of(release) < _SINCE:
        return settings
    notes = [one for one in settings.notes if one != NO_MEMORY]
    if has_state:
        return Settings(settings.config, (*notes, _HELD))
    if given.config.parts[-2:] == (FOLDER, CONFIG):  # an archive has no reservation of memory
        whole: int | None = _total(found.reserved)
    else:
        whole = _reservation(shape, given, where)
    if whole is None:
        notes.append(_UNCHECKED)
    config = replace(
        settings.config,
        memory_manager_policy=found.policy,
        reserved_memory=dict(found.reserved),
        memory_reservation=None if whole in (None, _total(found.reserved)) else str(whole),
    )
    return Settings(config, tuple(notes))


def _pages_reserved(pages: Mapping[str, str]) -> str:
    """``validateReservedMemory``: neither kubeReserved nor systemReserved takes huge pages, so
    reservedMemory may have none (bottlerocket-os/bottlerocket#4754)."""
    name, amount = next(iter(pages.items()))
    return (
        f'the total amount "{amount}" of type "{name}" is not equal to the value "0" determined by '
        "Node Allocatable feature"
    )


def _total(reserved: Mapping[int, str]) -> int:
    return sum(in_bytes(amount, "reservedMemory") for amount in reserved.values())


def _reservation(shape: Mapping[str, Any], given: Given, where: str) -> int | None:
    """What the node reserves as a whole, in bytes: kubeReserved, systemReserved and the eviction
    threshold together. ``None`` where the threshold is a share of the memory."""
    threshold = _threshold(shape, where)
    if threshold.endswith("%"):
        return None
    whole = in_bytes(threshold, f"{where}: evictionHard: memory.available")
    options = {"kubeReserved": given.kube_reserved, "systemReserved": given.system_reserved}
    for name, option in options.items():
        amounts = (shape.get(name) or {}) | pairs(name, option.split(",") if option else ())
        whole += in_bytes(amounts.get("memory", "0"), f"{where}: {name}: memory")
    return whole


def _threshold(shape: Mapping[str, Any], where: str) -> str:
    given = shape.get("evictionHard")
    if given is None:
        return _THRESHOLD
    texts = isinstance(given, dict) and all(isinstance(one, str) for one in given.values())
    if not texts:
        raise fault(where, "evictionHard: not a mapping of names to strings")
    merges = shape.get("mergeDefaultEvictionSettings") is True
    return str(given.get("memory.available", _THRESHOLD if merges else "0"))


def shows_huge_pages(machine: Machine) -> bool:
    """Whether the machine's tree states numbers of huge pages."""
    return any(path.endswith("/nr_hugepages") for path in machine.tree)
