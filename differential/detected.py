"""What a starting kubelet logs of its machine: cAdvisor's MachineInfo and the CPU manager's
CPUTopology.

What belongs here: starting a kubelet, and reading its log. What never does: what is right. Only the
log has the two: the endpoint ``/spec`` is gone since 1.21, and the CPU manager never served its
topology.

The lines are ``Machine: {…}`` (cAdvisor's ``manager.go``, Go's ``%+v``, since 1.19) and ``"Detected
CPU topology" topology={…}`` (``cpu_manager.go``, JSON since 1.32). Of MachineInfo only what comes
from the machine's tree is kept: the rest (memory, disks, network, ids) is the host's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from conformance.subject import SubjectLostError
from conformance.subjects.kubelet.subject import KubeletSubject
from reference.cpuset import CPUSet
from reference.steps import KubeletConfig, Start, Stop
from topologies import Machine
from topologies.cpulist import bits, ids, parse_list, parsed
from topologies.paths import CPU, NODE

_MACHINE: Final = re.compile(r"\] Machine: \{(?P<said>.*)", re.DOTALL)
_TOPOLOGY: Final = re.compile(r'\] "Detected CPU topology".*? topology=(?P<json>\{.*\})', re.DOTALL)
_LINK: Final = re.compile(rf"{NODE}/node[0-9]+/cpu([0-9]{{1,5}})")
_COUNTS: Final = ("NumCores", "NumPhysicalCores", "NumSockets")
_WORD: Final = re.compile(r"[^\s\[\]{}]*")
_NAME: Final = re.compile(r"([A-Za-z]+):")
#: Node, core, cache and their lists; a text that nests deeper is not a machine.
_MAX_DEPTH: Final = 8
#: What is left out of ``Topology``: it depends on the host's kernel, or is of s390 alone.
_LEFT_OUT: Final = frozenset({"HugePages", "BookID", "DrawerID"})
_NUMBERS: Final = frozenset({"Id", "Memory", "Size", "Level", "SocketID", "Threads", "Distances"})


@dataclass(frozen=True, slots=True)
class Detected:
    """What one kubelet logged of one machine, under Go's names. ``cpu_topology`` has ``NumCPUs`` …
    and ``CPUDetails``; ``machine_info`` has ``NumCores``, ``NumPhysicalCores``, ``NumSockets`` and
    ``Topology``, a list of NUMA nodes."""

    cpu_topology: dict[str, Any]
    machine_info: dict[str, Any]


def detect(
    subject: KubeletSubject, machine: Machine, *, reserved: CPUSet | None = None
) -> Detected:
    """Start the subject on ``machine``, and read what it logs. ``reserved`` is for machines whose
    first online CPU the kubelet does not find; else that one is reserved. Raises
    :class:`~conformance.subject.SubjectLostError` where the log lacks the two, with the kubelet's
    reason for not starting."""
    # Only the static policy logs the topology. It does so before it may refuse to start.
    config = KubeletConfig(reserved_system_cpus=reserved or CPUSet([_first_cpu(machine)]))
    node = subject.node(machine, config)
    try:
        node.do(Start())
        seen = node.view()
        node.do(Stop(kill=True))
        log = node.sandbox.log
        if log is None:
            raise SubjectLostError(f"{machine.name}: the kubelet left no log")
        log.finish()
        return heard(log.lines())
    except ValueError as error:
        reason = str(error)
        if seen.error:
            reason = f"it gave up: {seen.error}"
        elif seen.hangs:
            reason = f"it hangs: {seen.hangs}"
        raise SubjectLostError(f"{machine.name}: {reason}", evidence=node.evidence()) from error
    finally:
        node.close()


def _first_cpu(machine: Machine) -> int:
    """The lowest online CPU, of those in NUMA nodes if there are any: a kubelet leaves the others
    out."""
    tree = machine.tree
    online = parsed(parse_list, tree.get(f"{CPU}/online")) or 1
    linked = bits(int(found[1]) for found in map(_LINK.fullmatch, tree) if found)
    return next(ids(online & linked or online))


def heard(lines: Iterable[str]) -> Detected:
    """What a log says, of several starts the last. Raises ``ValueError``."""
    topology = machine = None
    for line in lines:
        if found := _TOPOLOGY.search(line):
            topology = json.loads(found["json"])
        elif found := _MACHINE.search(line):
            machine = _machine_info(found["said"])
    if topology is None or machine is None:
        missing = "CPU topology" if topology is None else "machine"
        raise ValueError(f"its log has no {missing}")
    if not isinstance(topology, dict):
        raise ValueError("its CPU topology cannot be read")
    return Detected(topology, machine)


def _machine_info(said: str) -> dict[str, Any]:
    counts = {name: re.search(rf"(?:^| ){name}:([0-9]{{1,9}}) ", said) for name in _COUNTS}
    start = said.find(" Topology:[")
    if start < 0 or not all(counts.values()):
        raise ValueError("its machine cannot be read")
    topology, _ = _value(said, start + len(" Topology:"), 0)
    info: dict[str, Any] = {name: int(found[1]) for name, found in counts.items() if found}
    return {**info, "Topology": _kept(topology)}


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    """The value that Go printed at ``at``, and where it ends."""
    if depth > _MAX_DEPTH or at >= len(text):
        raise ValueError("its machine cannot be read")
    if text[at] == "[":
        return _items(text, at + 1, depth)
    if text[at] == "{":
        return _fields(text, at + 1, depth)
    word = _WORD.match(text, at)
    assert word is not None  # the pattern matches an empty text, too
    return word[0], word.end()


def _items(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    while not text.startswith("]", at):
        item, end = _value(text, at, depth + 1)
        if end == at:
            raise ValueError("its machine cannot be read")
        items.append(item)
        at = end + text.startswith(" ", end)
    return items, at + 1


def _fields(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    fields: dict[str, Any] = {}
    while not text.startswith("}", at):
        name = _NAME.match(text, at)
        if name is None:
            raise ValueError("its machine cannot be read")
        fields[name[1]], end = _value(text, name.end(), depth + 1)
        at = end + text.startswith(" ", end)
    return fields, at + 1


def _kept(value: Any, name: str = "") -> Any:
    """The value with its numbers as ``int``, and without what is left out."""
    if isinstance(value, list):
        return [_kept(item, name) for item in value]
    if isinstance(value, dict):
        return {key: _kept(item, key) for key, item in value.items() if key not in _LEFT_OUT}
    return int(value) if name in _NUMBERS else value
