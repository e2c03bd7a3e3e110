"""What a certificate names beside the scenarios' results: the node or machine, its kubelet and
configuration, and which promises there are.

What belongs here: facts as the certificate has them. What never does: the certificate's verdict
(:mod:`reports.certificate`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, Final

import topologies
from conformance.catalogue import catalogue, digest
from conformance.discovered import architecture_of, topology_of
from conformance.judge import inapplicable
from conformance.session.selection import NODE_AREA
from conformance.subject import NOT_OF_REAL_NODES, Capability, SubjectInfo
from hil.distributions import distribution_of
from hil.inspection import Marks, NodeFacts, released
from hil.isolation import Measurements, judging
from reference import DiscoveryError
from reports.certificate import Findings, Promise
from reports.certificate.document import (
    Configuration,
    Firmware,
    Judged,
    Kubelet,
    Level,
    Machine,
    Noise,
    Suite,
    System,
)
from reports.certificate.unit import unit_of
from reports.text import line
from topologies.processor import memory_by_node, microcode, processor
from topologies.steady import steady_digest

#: The settings of a KubeletConfiguration that decide which CPUs a container gets.
_SETTINGS: Final = (
    *("cpuManagerPolicy", "cpuManagerPolicyOptions", "reservedSystemCPUs", "systemReserved"),
    *("kubeReserved", "topologyManagerPolicy", "topologyManagerScope"),
    *("topologyManagerPolicyOptions", "memoryManagerPolicy", "reservedMemory", "featureGates"),
    *("cgroupDriver", "cpuManagerReconcilePeriod", "cpuCFSQuota", "cpuCFSQuotaPeriod"),
)

_NO_MARKS: Final = Marks()


@dataclass(frozen=True, slots=True)
class _Able:
    """A subject with every capability that its kind can have. Whether a scenario applies then
    depends on kind, release and machine alone."""

    info: SubjectInfo
    capabilities: frozenset[Capability] = frozenset(Capability)


def of_node(facts: NodeFacts, marks: Marks = _NO_MARKS) -> Findings:
    """What is known of a node with these marks. Raises :class:`hil.shell.NodeUnfit` without a
    kubelet, or with one that does not say its release."""
    kubelet = released(facts)
    info = SubjectInfo(facts.name, kubelet.release, kubelet.version, kubelet.digest)
    return Findings(
        title=facts.name,
        machine=_machine(facts.machine, facts.name, info),
        kubelet=_kubelet(info),
        promises=list(promises(facts.machine, info, named=False)),
        suite=suite(),
        unit=unit_of(marks.values, marks.unread),
        firmware=_firmware(facts, marks.settings),
        system=System(
            emulated=facts.emulated,
            os=facts.os_release,
            kernel=facts.kernel,
            architecture=facts.arch,
            command_line=facts.command_line,
            systemd=str(facts.systemd or "none"),
            cgroup=f"v{facts.cgroup.version}, driver {facts.cgroup.driver or 'unknown'}",
            runtime=f"{facts.runtime.name} {facts.runtime.version}".strip() or "not found",
            distribution=distribution_of(facts).name,
        ),
        configuration=configuration(kubelet.settings),
        lint=[str(one) for one in topologies.lint(facts.machine.tree)],
    )


def of_machine(machine: topologies.Machine, info: SubjectInfo) -> Findings:
    """What is known of a kubelet in the loop on a machine: a pre-certificate's facts."""
    version_ = info.version or info.release
    return Findings(
        title=f"kubelet {version_} on {machine.name}",
        machine=_machine(machine, machine.name, info),
        kubelet=_kubelet(info),
        promises=list(promises(machine, info, named=True)),
        suite=suite(),
        pre=True,
        lint=[str(one) for one in topologies.lint(machine.tree)],
        facts={"machine's source": machine.source or machine.why},
    )


def with_noise(found: Findings, measured: Measurements, most: float) -> Findings:
    """The findings with what was measured of exclusive CPUs. ``most``: the longest gap that is
    promised, in microseconds; 0: none is promised."""
    disturbance = measured.disturbance
    wakeups = {"cyclictest": str(measured.wakeups)} if measured.wakeups else {}
    return replace(
        found,
        facts={
            **found.facts,
            "reconcile latency": f"{measured.latency:.2f} s, its period is {measured.period:g} s",
            "tasks of others on exclusive CPUs": judging.tasks_in_words(disturbance),
            "interrupts on exclusive CPUs": judging.interrupts_in_words(disturbance),
            **wakeups,
        },
        noise=[
            Noise(
                name=line(one.name),
                cpus=line(one.cpus),
                gap=one.gap,
                involuntary=one.involuntary,
                seconds=one.seconds,
            )
            for one in measured.noise
        ],
        judged=[
            Judged(what=line(one.what), claim=line(one.claim), seen=line(one.seen), kept=one.kept)
            for one in measured.judged(most)
        ],
    )


def promises(machine: topologies.Machine, info: SubjectInfo, *, named: bool) -> Iterator[Promise]:
    """Every scenario of the catalogue that can be about this machine; ``named``: also those that
    name it as their own."""
    try:
        topology = topology_of(machine, release=info.release, architecture=architecture_of(info))
    except DiscoveryError as error:
        topology, against = None, f"the kubelet would not start: {error}"
    # A scenario that needs what no real node can be made to do is not required of one.
    can = frozenset(Capability) - (frozenset() if named else NOT_OF_REAL_NODES)
    able: Any = _Able(info, can)
    for one in catalogue():
        if one.machine and not (named and one.machine == machine.name):
            continue
        level: Level = "core" if one.level.value == "core" else "extended"
        yield Promise(
            id=one.id,
            title=one.title,
            level=level,
            source=one.source.url,
            against=inapplicable(one, topology, able, info.release) if topology else against,
            node_only=one.area == NODE_AREA,
        )


def suite() -> Suite:
    return Suite(pinproof=version("pinproof"), catalogue=digest(), scenarios=len(catalogue()))


def configuration(settings: Mapping[str, Any]) -> Configuration:
    """A kubelet's settings, as they were found: those that decide CPUs, and the digest of all."""
    found = {name: _shown(settings[name]) for name in _SETTINGS if settings.get(name) is not None}
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), default=str)
    total = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    return Configuration(
        settings={"cpuManagerPolicy": "none (default)", **found}, digest=f"sha256:{total}"
    )


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_shown(one)}" for name, one in sorted(value.items()))
    if isinstance(value, list):
        return "; ".join(map(_shown, value))
    return str(value)


def _kubelet(info: SubjectInfo) -> Kubelet:
    return Kubelet(version=info.version or info.release, release=info.release, digest=info.digest)


def _firmware(facts: NodeFacts, settings: Mapping[str, str]) -> Firmware:
    found = facts.firmware
    return Firmware(
        vendor=found.sys_vendor,
        product=f"{found.product_name} {found.product_version}".strip(),
        board=f"{found.board_vendor} {found.board_name}".strip(),
        firmware_vendor=found.bios_vendor,
        firmware_version=found.bios_version,
        firmware_date=found.bios_date,
        settings=dict(settings),
    )


def _machine(machine: topologies.Machine, name: str, info: SubjectInfo) -> Machine:
    try:
        topology = topology_of(machine, release=info.release, architecture=architecture_of(info))
        places = {cpu: (one[0], one[1], one[2], one[3]) for cpu, one in topology.details.items()}
    except DiscoveryError:
        places = {}
    # The describer invented the processor and the memory in the files of its machines.
    described = topologies.is_described(machine)
    memory = {} if described else memory_by_node(machine.tree)
    cores: dict[tuple[int, int], int] = {}
    for _, socket, core, _ in places.values():
        cores[socket, core] = cores.get((socket, core), 0) + 1
    return Machine(
        name=name,
        described=described,
        digest=machine.digest,
        hardware_digest=steady_digest(machine),
        processor="" if described else processor(machine.tree),
        microcode="" if described else microcode(machine.tree),
        sockets=len({socket for _, socket, _, _ in places.values()}),
        numa_nodes=len({numa for numa, _, _, _ in places.values()}),
        cores=len(cores),
        cpus=len(places),
        threads_per_core=max(cores.values(), default=0),
        uncore_caches=len({cache for _, _, _, cache in places.values()}),
        memory=sum(memory.values()),
        memory_by_node=memory,
        places=places,
    )
