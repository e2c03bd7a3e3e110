"""The answer of ``simulate`` as plain values: for ``--json``, and for a page that shows it.

What belongs here: the words and numbers of an answer. What never does: the answer
(``simulation``), and how it is laid out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pinproof.simulation import Answer, Kept, Verdict
from reference.cpuset import CPUSet
from reference.kubelet.reasons import Rule
from reference.steps import Container, Kind, Pod
from topologies.errors import one_line


def facts(found: Answer) -> dict[str, object]:
    """What ``simulate --json`` prints."""
    return {
        "kubelet": {
            "release": found.release,
            "starts": True,
            "settings": str(found.config),
            "hangs": hang_text(found) if found.hangs_over else "",
        },
        "machine": found.machine.name,
        "notes": list(found.notes),
        "pods": {pod.name: _pod_facts(found, pod, each) for pod, each in found.by_pod()},
        "shared pool": str(found.view.shared_pool),
        "holdings": {owner: str(cpus) for owner, cpus in found.held.items()},
        "state file": found.view.state_file,
    }


def _pod_facts(found: Answer, pod: Pod, verdicts: Sequence[Verdict]) -> dict[str, object]:
    status = found.view.pods[pod.name]
    held = found.view.assignments.get(pod.name, {})
    return {
        "uid": pod.uid,
        "phase": status.phase.value,
        "qos": status.qos,
        "reason": status.reason,
        "message": status.message,
        "exclusive": {name: str(cpus) for name, cpus in held.items()},
        "containers": {
            one.container: _container_facts(one) | _other_facts(found, one) for one in verdicts
        },
    }


def _container_facts(verdict: Verdict) -> dict[str, object]:
    return {
        "verdict": verdict.kept.value,
        "cpus": None if verdict.cpus is None else str(verdict.cpus),
        "reason": verdict.reason.text,
        "rule": verdict.reason.rule.title,
        "statement": verdict.reason.rule.statement,
        "source": verdict.reason.rule.url,
    }


def _other_facts(found: Answer, verdict: Verdict) -> dict[str, object]:
    """The memory and devices of a container, where it has any."""
    owner = verdict.pod, verdict.container
    nodes, devices = found.memory_of(*owner), found.devices_of(*owner)
    held = [
        {"resource": one.resource, "id": one.id, "NUMA nodes": str(CPUSet(one.numa_nodes))}
        for one in devices
    ]
    memory: dict[str, object] = {"memory NUMA nodes": str(nodes)} if nodes else {}
    return memory | ({"devices": held} if held else {})


def hang_text(found: Answer) -> str:
    """At which pod the kubelet hangs, and over what."""
    rule = found.hang_rule
    ends = rule is Rule.ENDLESS_MERGE
    never = "answers after minutes or hours" if ends else "never answers"
    where = f"kubelet {found.release} hangs at {found.hangs_over} and {never}"
    return one_line(f"{where}: {found.view.hangs}: {rule.url}", limit=1000)


def asked_text(container: Container) -> str:
    """What a container is and how much cpu it requests."""
    kind = "" if container.kind is Kind.APP else f"{container.kind.value} "
    return f"{kind}{container.requested_cpu or 'no cpu request'}"


def cpus_text(verdict: Verdict) -> str:
    """The CPUs that a container may run on."""
    return "any" if verdict.kept is Kept.UNPINNED else str(verdict.cpus or "none")


def kubelets_words(found: Answer, pod: Pod) -> str:
    """With which reason and message the kubelet rejects a pod."""
    status = found.view.pods[pod.name]
    return one_line(f"{status.reason}: {status.message}")


def beside_text(found: Answer, verdict: Verdict) -> str:
    """The memory and devices of a container, as ``, memory of NUMA node 0, 2 example.com/gpu of
    NUMA node 0``."""
    owner = verdict.pod, verdict.container
    nodes, devices = found.memory_of(*owner), found.devices_of(*owner)
    parts = [f"memory{_of_nodes(nodes)}"] if nodes else []
    alike = Counter((one.resource, one.numa_nodes) for one in devices)
    parts += [
        f"{count} {resource}{_of_nodes(CPUSet(numa_nodes))}"
        for (resource, numa_nodes), count in alike.items()
    ]
    return one_line("".join(f", {part}" for part in parts), limit=1000)


def _of_nodes(nodes: CPUSet) -> str:
    return f" of NUMA {'node' if len(nodes) == 1 else 'nodes'} {nodes}" if nodes else ""


def in_short(verdict: Verdict) -> str:
    """How a container runs, and why: without the reason where it gets what it asks for."""
    plain = verdict.kept is Kept.EXCLUSIVE and verdict.reason.rule is Rule.WHOLE_CPUS
    return verdict.kept.value if plain else f"{verdict.kept.value}: {verdict.reason.text}"
