"""The cgroups of what is reserved. The weights, the cpuset and the errors are what kubelets 1.32.2,
1.36.4 and 1.37.0 wrote."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reference import CPUSet, Node, NotModelled
from reference.steps import Configure, KubeletConfig, Reboot, Start, Stop
from reference.view import ReservedCgroup
from tests.reference.nodes import TWO_NODES, booted, do

CONFIG = KubeletConfig(
    system_reserved="500m",
    kube_reserved="1500m",
    system_reserved_cgroup="/system.slice",
    kube_reserved_cgroup="/kube.slice",
    enforce_node_allocatable=("pods", "system-reserved", "kube-reserved-compressible"),
)


def _started(config: KubeletConfig, release: str = "1.36") -> Node:
    return booted(config=config, machine=TWO_NODES, release=release)


@pytest.mark.parametrize(("policy", "cpus"), [("static", ""), ("none", "0-15")])
def test_each_has_the_weight_of_its_own_amount(policy: str, cpus: str) -> None:
    """And every CPU under policy none."""
    made = _started(replace(CONFIG, policy=policy))
    assert made.view().reserved_cgroups == {
        "/system.slice": ReservedCgroup(20, CPUSet.parse(cpus)),
        "/kube.slice": ReservedCgroup(59, CPUSet.parse(cpus)),
    }
    assert made._runtime.copy().reserved_cgroups == made.view().reserved_cgroups


def test_they_keep_what_was_enforced_until_the_machine_boots() -> None:
    made = _started(CONFIG)
    before = made.view().reserved_cgroups
    do(made, Stop())
    do(made, Configure(KubeletConfig(system_reserved="2")))
    assert do(made, Start()).reserved_cgroups == before
    do(made, Stop())
    assert do(made, Reboot()).reserved_cgroups == {}


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (
            replace(CONFIG, kube_reserved_cgroup="/a.slice/b.slice"),
            'Failed to enforce Kube Reserved Compressible Cgroup Limits on "/a.slice/b.slice": '
            'could not read controllers for cgroup ["a.slice" "b.slice"]: '
            "open /sys/fs/cgroup/a.slice/b.slice/cgroup.controllers: no such file or directory",
        ),
        (
            replace(CONFIG, system_reserved=None),
            'Failed to enforce System Reserved Cgroup Limits on "/system.slice": '
            '["system.slice"] cgroup is not configured properly',
        ),
    ],
)
def test_a_reservation_needs_its_cgroup_and_an_amount(config: KubeletConfig, error: str) -> None:
    """The kubelet gives up after its CPU manager has written the state file."""
    view = _started(config).view()
    assert (view.running, view.error, view.exit_status) == (False, error, 1)
    assert view.state_file is not None


@pytest.mark.parametrize(
    "config",
    [
        replace(CONFIG, reserved_system_cpus=CPUSet([0])),
        replace(CONFIG, kube_reserved_cgroup=None),
        replace(CONFIG, enforce_node_allocatable=("system-reserved",)),
        replace(CONFIG, enforce_node_allocatable=("pods", "half-reserved")),
        replace(
            CONFIG,
            enforce_node_allocatable=("pods", "kube-reserved", "kube-reserved-compressible"),
        ),
    ],
)
def test_what_kubelets_refuse_is_not_modelled(config: KubeletConfig) -> None:
    with pytest.raises(NotModelled):
        _started(config)


def test_releases_without_cgroups_of_pods_are_not_modelled() -> None:
    with pytest.raises(NotModelled, match=r"cgroups of reservations, by release 1\.26"):
        _started(CONFIG, "1.26")
