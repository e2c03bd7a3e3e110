"""Steps in words."""

from __future__ import annotations

from typing import get_args

import pytest

from conformance.pods import best_effort, burstable, exclusive, guaranteed, guaranteed_of
from reference import CPUSet
from reference.steps import (
    CREATE,
    Apply,
    ApplyTogether,
    AwaitReconcile,
    Configure,
    Container,
    Delete,
    Device,
    EndDevicePlugin,
    KillContainer,
    Kind,
    KubeletConfig,
    OfflineCPUs,
    OnlineCPUs,
    Pod,
    Reboot,
    RegisterDevices,
    RemoveState,
    ReportDevices,
    Start,
    Step,
    Stop,
    Tamper,
    TamperQuota,
    WriteState,
)

RESERVING = KubeletConfig(
    reserved_system_cpus=CPUSet([0]),
    system_reserved="1",
    kube_reserved="500m",
    policy_options={"full-pcpus-only": "true"},
    feature_gates={"X": False},
)
ALIGNING = KubeletConfig(
    topology_manager_policy="restricted",
    topology_manager_scope="pod",
    topology_manager_policy_options={"prefer-closest-numa-nodes": "true"},
    memory_manager_policy="Static",
    reserved_memory={0: "1Mi", 1: "1Mi"},
)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (Start(), "start the kubelet"),
        (Stop(), "stop the kubelet (SIGTERM)"),
        (Stop(kill=True), "kill the kubelet (SIGKILL)"),
        (Reboot(), "reboot the machine"),
        (Reboot("m"), "reboot the machine as m"),
        (Delete("a"), "delete pod a"),
        (RemoveState(), "remove the state file"),
        (WriteState(""), "write the state file: (empty)"),
        (WriteState("x" * 400), f"write the state file: {'x' * 300}… (400 characters)"),
        (Delete("a", force=True), "delete pod a by force"),
        (KillContainer("a", "c"), "kill container a/c (SIGKILL)"),
        (TamperQuota("a", "c", 5000), "give a/c a CFS quota of 5000 us behind the kubelet's back"),
        (OfflineCPUs(CPUSet([2, 3]), "m"), "take CPUs 2-3 offline"),
        (OnlineCPUs(CPUSet([2, 3]), "m"), "bring CPUs 2-3 online"),
        (AwaitReconcile(), "wait for a reconcile round"),
        (RegisterDevices("nic", (Device("d0", (0, 1)), Device("d1", (1,)), Device("d2"))),
         "register the devices d0 on NUMA nodes 0-1, d1 on NUMA node 1, d2 as nic"),
        (RegisterDevices("nic", (Device("d0"),), failures=2, seconds=1),
         "register the devices d0 as nic, whose first 2 allocations fail, each allocation takes "
         "1 s"),
        (ReportDevices("nic", (Device("d0", (0,), healthy=False), Device("d1"))),
         "let the device plugin of nic report the devices d0 on NUMA node 0 (unhealthy), d1"),
        (EndDevicePlugin("nic"), "end the device plugin of nic"),
        (Apply(Pod("a", (Container("c", "1", "1", "1Mi", "1Mi", devices=(("nic", 2),)),))),
         "apply Guaranteed pod a (c: 1 CPU, 2 nic)"),
        (Tamper("a", "c", CPUSet([0, 1])),
         "set the cpuset of a/c to 0-1 behind the kubelet's back"),
        (Configure(RESERVING),
         "configure the kubelet: policy static, reservedSystemCPUs 0, systemReserved cpu 1, "
         "kubeReserved cpu 500m, option full-pcpus-only=true, gate X=False"),
        (Configure(ALIGNING),
         "configure the kubelet: policy static, Topology Manager restricted, "
         "Topology Manager scope pod, Topology Manager option prefer-closest-numa-nodes=true, "
         "memory manager Static, reservedMemory 1Mi in NUMA node 0, reservedMemory 1Mi in NUMA "
         "node 1"),
        (Apply(guaranteed("a", 1, "500m")), "apply Guaranteed pod a (c1: 1 CPU; c2: 500m CPU)"),
        (ApplyTogether((guaranteed("a", 1), best_effort("b"))),
         "apply at once Guaranteed pod a (c: 1 CPU), BestEffort pod b (c: no cpu request)"),
        (ApplyTogether((best_effort("a"), guaranteed("b", 1)), CREATE),
         "apply BestEffort pod a (c: no cpu request), and Guaranteed pod b (c: 1 CPU) while the "
         "first CreateContainer still runs"),
        (Apply(best_effort("a")), "apply BestEffort pod a (c: no cpu request)"),
        (Apply(burstable("a", request="1", limit="2")),
         "apply Burstable pod a (c: cpu request 1, limit 2)"),
        (Apply(burstable("a", request="1")), "apply Burstable pod a (c: cpu request 1)"),
        (Apply(Pod("a", (Container("c", cpu_limit="2", memory_limit="64Mi"),))),
         "apply Guaranteed pod a (c: cpu limit 2)"),
        (Apply(guaranteed_of("a", [exclusive("i", 1, kind=Kind.INIT), exclusive("m", 1)])),
         "apply Guaranteed pod a (init i: 1 CPU; m: 1 CPU)"),
    ],
)  # fmt: skip
def test_a_step_says_its_sentence(step: Step, text: str) -> None:
    assert step.sentence == text


def test_every_kind_of_step_has_a_sentence() -> None:
    assert [kind.__name__ for kind in get_args(Step) if not hasattr(kind, "sentence")] == []
