"""QoS classes, and who gets exclusive CPUs."""

from __future__ import annotations

import pytest

from reference import exclusive_cpus, qos_class
from reference.pods.qos import pod_milli_cpus
from reference.steps import Container, Kind, Pod


def container(
    cpu: str | None, memory: str | None = "64Mi", *, kind: Kind = Kind.APP, name: str = "c"
) -> Container:
    return Container(name, cpu, cpu, memory, memory, kind)


def pod(*containers: Container) -> Pod:
    return Pod("p", containers)


@pytest.mark.parametrize(
    ("containers", "qos"),
    [
        ([Container("c")], "BestEffort"),
        ([Container("c", "0", "0", "0", "0")], "BestEffort"),
        ([container("2")], "Guaranteed"),
        ([container("2"), container("500m")], "Guaranteed"),
        ([container("2"), Container("d")], "Burstable"),
        ([container("2", None)], "Burstable"),
        ([Container("c", None, "2", None, "64Mi")], "Guaranteed"),
        ([Container("c", "1", "2", "64Mi", "64Mi")], "Burstable"),
        ([Container("c", "2", "2000m", "1Ki", "1024")], "Guaranteed"),
        ([container("1", kind=Kind.INIT), container("2")], "Guaranteed"),
        ([Container("i", kind=Kind.INIT), container("2")], "Burstable"),
    ],
)
def test_qos_class(containers: list[Container], qos: str) -> None:
    assert qos_class(pod(*containers)) == qos


@pytest.mark.parametrize(
    ("cpu", "count"),
    [("2", 2), ("2000m", 2), ("2.0", 2), ("2e0", 2), ("2.5", 0), ("2001m", 0), ("500m", 0)],
)
def test_whole_requests_of_a_guaranteed_pod_are_exclusive(cpu: str, count: int) -> None:
    one, burstable = container(cpu), container(cpu, None)
    assert exclusive_cpus(pod(one), one) == count
    assert exclusive_cpus(pod(burstable), burstable) == 0


def test_the_pods_request_is_its_steady_state_or_its_hungriest_start() -> None:
    def of(cpu: str, kind: Kind) -> Container:
        return container(cpu, kind=kind)

    apps = [of("1", Kind.APP), of("500m", Kind.APP)]
    assert pod_milli_cpus(pod(*apps)) == 1500
    assert pod_milli_cpus(pod(of("4", Kind.INIT), *apps)) == 4000
    assert pod_milli_cpus(pod(of("1", Kind.SIDECAR), of("2", Kind.INIT), *apps)) == 3000
    assert pod_milli_cpus(pod(of("2", Kind.INIT), of("1", Kind.SIDECAR), *apps)) == 2500
