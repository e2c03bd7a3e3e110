"""Pods of scenarios. Their memory is the same everywhere: it decides the QoS class, never the
CPUs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from reference.steps import Container, Kind, Pod, PodResources

_MEMORY = "64Mi"


def exclusive(name: str, cpus: int | str, *, kind: Kind = Kind.APP) -> Container:
    """A container whose cpu and memory limits equal its requests."""
    return Container(
        name,
        cpu_request=str(cpus),
        cpu_limit=str(cpus),
        memory_request=_MEMORY,
        memory_limit=_MEMORY,
        kind=kind,
    )


def guaranteed(name: str, *cpus: int | str) -> Pod:
    """A Guaranteed pod with one container for each quantity: ``c``, or ``c1``, ``c2``, …"""
    names = ["c"] if len(cpus) == 1 else [f"c{number}" for number in range(1, len(cpus) + 1)]
    return Pod(name, tuple(exclusive(one, want) for one, want in zip(names, cpus, strict=True)))


def guaranteed_of(name: str, containers: Sequence[Container]) -> Pod:
    """A Guaranteed pod of these containers, init containers first."""
    return Pod(name, tuple(containers))


def later_pods(cpus: int, beside: Collection[str] = ()) -> list[Pod]:
    """The Guaranteed pods of a rehearsal that are applied one by one, each to a later kubelet. None
    has a name in ``beside``."""

    def unused(name: str) -> str:
        return name if name not in beside else unused(f"{name}-pod")

    return [guaranteed(unused(name), cpus) for name in ("later", "later2", "later3")]


def pooled(name: str, cpus: int) -> Pod:
    """A Guaranteed pod with ``cpus`` CPUs as a whole: half of them for container ``c`` alone, the
    others for ``rest``."""
    whole = PodResources(str(cpus), str(cpus), "1Gi", "1Gi")
    return Pod(name, (exclusive("c", cpus // 2), Container("rest")), resources=whole)


def best_effort(name: str) -> Pod:
    """A pod without any request or limit; container ``c``."""
    return Pod(name, (Container("c"),))


def burstable(name: str, *, request: str | None = None, limit: str | None = None) -> Pod:
    """A Burstable pod: more memory allowed than requested, and these cpu quantities."""
    container = Container(
        "c", cpu_request=request, cpu_limit=limit, memory_request=_MEMORY, memory_limit="128Mi"
    )
    return Pod(name, (container,))
