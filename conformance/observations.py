"""Views of a real node, written to a result stream and read again.

What belongs here: views to records and back. What never does: judging views
(:mod:`conformance.rejudging`).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from conformance.lockstep.outcome import Seen
from conformance.records import NodeRecord, Observations, Sighting
from conformance.subject import (
    Capability,
    HasOwnConfig,
    HasOwnMachines,
    Origin,
    Subject,
    configured,
)
from conformance.written import made, plain
from reference import CPUSet
from reference.steps import KubeletConfig
from reference.view import View
from topologies import Machine
from topologies.archive import read_archive
from topologies.packing import packed

_FIELDS: Final = frozenset(View.__dataclass_fields__)


def observed(history: Iterable[Seen], *, salt: str, larger: str) -> Observations | None:
    """All views of a real node; ``None`` if there are none."""
    sightings = list(_sightings(history))
    return Observations(sightings=sightings, salt=salt, larger=larger) if sightings else None


def _sightings(history: Iterable[Seen]) -> Iterator[Sighting]:
    before = _values(View(running=False), Origin("", CPUSet()))
    for one in history:
        if one.origin is None:
            continue
        now = _values(one.view, one.origin)
        changed = {name: value for name, value in now.items() if value != before[name]}
        yield Sighting(step=one.step, at=one.origin.at, seen=changed)
        before = now


def _values(view: View, origin: Origin) -> dict[str, Any]:
    values: dict[str, Any] = plain(view)
    for pod in values["pods"].values():
        del pod["or_else"]  # a subject has none
    return values | {
        "online": str(origin.online),
        "state_file_digest": origin.state_file,
        "containers": {name: list(both) for name, both in origin.containers.items()},
    }


def views(observations: Observations) -> Iterator[tuple[str, View]]:
    """Each step in words, and the view after it. Raises :class:`msgspec.ValidationError` if a
    sighting is not a view."""
    values: dict[str, Any] = {"running": False}
    for one in observations.sightings:
        values |= {name: value for name, value in one.seen.items() if name in _FIELDS}
        yield one.step, made(View, values)


def node_records(subject: Subject) -> dict[str, NodeRecord]:
    """What the header keeps of a subject's real nodes, by name."""
    if not isinstance(subject, HasOwnMachines):
        return {}
    return {machine.name: _node_record(subject, machine) for machine in subject.machines}


def _node_record(subject: Subject, machine: Machine) -> NodeRecord:
    own = subject.own_config(machine.name) if isinstance(subject, HasOwnConfig) else None
    kept = configured(subject, machine.name, KubeletConfig())
    return NodeRecord(
        tree=base64.b64encode(packed(machine.tree, folder=machine.name)).decode(),
        config=None if own is None else msgspec.to_builtins(own, enc_hook=str, str_keys=True),
        capabilities=sorted(one.name for one in subject.capabilities),
        reserved_memory=dict(kept.reserved_memory),
    )


def machine_of(record: NodeRecord, name: str) -> Machine:
    """The node's machine. Raises :class:`topologies.archive.BrokenArchive` and ``ValueError``."""
    return Machine(name, read_archive(base64.b64decode(record.tree, validate=True)))


def config_of(record: NodeRecord) -> KubeletConfig | None:
    """Raises :class:`msgspec.ValidationError`."""
    return None if record.config is None else made(KubeletConfig, record.config)


def memory_manager_of(record: NodeRecord) -> KubeletConfig:
    """A configuration with the memory manager that the node kept."""
    policy = "Static" if record.reserved_memory else "None"
    return KubeletConfig(memory_manager_policy=policy, reserved_memory=record.reserved_memory)


def capabilities_of(record: NodeRecord) -> frozenset[Capability]:
    """Raises ``ValueError`` for one that this pinproof does not know."""
    known = Capability.__members__
    if unknown := sorted({*record.capabilities} - known.keys()):
        raise ValueError(f"unknown capability: {unknown[0]}")
    return frozenset(known[name] for name in record.capabilities)
