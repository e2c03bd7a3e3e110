"""The device manager of the model: hints, and who gets which devices."""

from __future__ import annotations

from dataclasses import replace

import pytest

import topologies
from conformance.pods import exclusive, guaranteed
from reference import CPUSet, IllegalStep, Node, NotModelled
from reference.devicemanager.manager import DeviceManager
from reference.devicemanager.topology_hints import generate_device_topology_hints
from reference.errors import DeviceError
from reference.steps import (
    AddEphemeral,
    Apply,
    AskPodResources,
    Configure,
    Container,
    Delete,
    Device,
    Kind,
    KubeletConfig,
    Pod,
    PodResources,
    Reboot,
    RegisterDevices,
    Start,
    Stop,
)
from reference.topologymanager.hint import Hint
from reference.view import HeldDevice, Phase

NIC = "pinproof.invalid/nic"
ONE = {"d0": Device("d0", (0,)), "d1": Device("d1", (1,)), "d2": Device("d2", (1,))}


def hints(*ids: str, request: int, release: str = "1.36", nodes: int = 3) -> list[str]:
    """Of devices of which these are available."""
    return [
        str(one)
        for one in generate_device_topology_hints(
            ONE, ids, (), request, range(nodes), release=release
        )
    ]


def test_from_1_36_on_a_hint_names_nodes_with_devices_alone() -> None:
    """``deviceNUMANodes`` (kubernetes/kubernetes#138244); before, any set with such a node."""
    assert hints("d1", request=1) == ["1 preferred", "0-1"]
    assert hints("d1", request=1, release="1.35") == ["1 preferred", "0-1", "1-2", "0-2"]


def test_a_hint_is_preferred_by_what_an_empty_machine_could_do() -> None:
    """Two devices are near to node 1, and one of them is taken."""
    assert hints("d0", "d1", request=2) == ["0-1"]
    assert hints("d1", "d2", request=2) == ["1 preferred", "0-1"]
    assert hints("d0", "d1", "d2", request=3) == ["0-1 preferred"]
    assert hints(request=1) == []


def test_reusable_devices_are_part_of_every_hint() -> None:
    """Those of an init container (``devicesToReuse``)."""
    made = generate_device_topology_hints(ONE, ["d1"], ["d0"], 1, range(2), release="1.36")
    assert made == [Hint(0b01, preferred=True), Hint(0b11, preferred=False)]


def test_too_many_nodes_are_not_modelled() -> None:
    with pytest.raises(NotModelled, match="device hints on 21 NUMA nodes"):
        hints("d0", request=1, release="1.35", nodes=21)


def container(name: str = "c", count: int = 1, *, kind: Kind = Kind.APP) -> Container:
    return Container(name, "1", "1", "64Mi", "64Mi", kind=kind, devices=((NIC, count),))


def manager(*devices: Device, release: str = "1.36") -> DeviceManager:
    made = DeviceManager(range(2), release=release)
    made.register(NIC, devices)
    return made


def held(made: DeviceManager, pod: Pod, name: str = "c") -> list[str]:
    return sorted(made.pod_devices.container_devices(pod.uid, name, NIC) or ())


def test_the_lowest_ids_near_to_the_hint_are_given() -> None:
    """Then the others by their ids: what the plugin prefers."""
    made = manager(Device("d0", (0,)), Device("d1", (1,)), Device("d2", (1,)), Device("d3"))
    one, two = Pod("one", (container(),)), Pod("two", (container(count=2),))
    made.allocate(one, one.containers[0], NIC, Hint(0b10, preferred=True))
    made.allocate(two, two.containers[0], NIC, Hint(0b10, preferred=False))
    assert (held(made, one), held(made, two)) == (["d1"], ["d0", "d2"])


def test_what_there_is_not_is_refused() -> None:
    made = manager(Device("d0", (0,)))
    pod = Pod("a", (container(count=2),))
    with pytest.raises(DeviceError, match=r"unavailable for .*/nic\. Requested: 2, Available: 1"):
        made.allocate(pod, pod.containers[0], NIC, None)


def test_another_number_than_before_is_refused() -> None:
    made = manager(Device("d0", (0,)), Device("d1", (0,)))
    pod = Pod("a", (container(),))
    made.allocate(pod, pod.containers[0], NIC, None)
    more = replace(pod, containers=(container(count=2),))
    with pytest.raises(DeviceError, match=r'changed request for resource ".*/nic" from 1'):
        made.allocate(more, more.containers[0], NIC, None)
    assert made.topology_hints(more, more.containers[0], NIC) == []


def test_an_init_containers_device_is_used_again_and_a_sidecars_is_not() -> None:
    made = manager(Device("d0", (0,)), Device("d1", (0,)))
    init, side = container("init", kind=Kind.INIT), container("side", kind=Kind.SIDECAR)
    pod = Pod("a", (init, side, container()))
    for one in pod.containers:
        made.allocate(pod, one, NIC, None)
    assert [held(made, pod, name) for name in ("init", "side", "c")] == [["d0"], ["d0"], ["d1"]]


def test_sidecars_under_scope_pod_are_not_modelled() -> None:
    made = manager(Device("d0", (0,)))
    pod = Pod("a", (container("side", kind=Kind.SIDECAR), container()))
    with pytest.raises(NotModelled, match="devices of a sidecar under scope pod"):
        made.pod_topology_hints(pod, NIC)


# ---- a whole node --------------------------------------------------------------------------------


def node(release: str) -> Node:
    config = KubeletConfig(
        reserved_system_cpus=CPUSet([0]), topology_manager_policy="single-numa-node"
    )
    made = Node(
        lambda name: topologies.machine(name).tree, "2s-2n-16c-smt2", config, release=release
    )
    made.do(Start())
    made.do(RegisterDevices(NIC, (Device("d0", (1,)),)))
    made.do(Apply(Pod("a", (container(),))))
    return made


@pytest.mark.parametrize("release", ["1.20", "1.26", "1.36"])
def test_running_pods_keep_devices_and_cpus_over_a_restart(release: str) -> None:
    made = node(release)
    before = made.view().assignments
    made.do(Stop(kill=True))
    made.do(Start())
    assert made.view().assignments == before
    made.do(RegisterDevices(NIC, (Device("d0", (1,)),)))
    made.do(Apply(Pod("b", (container(),))))
    assert made.view().pods["b"].reason == "TopologyAffinityError"
    made.do(Delete("a"))
    made.do(Delete("b"))
    made.do(Apply(Pod("d", (Container("c"),))))
    made.do(Apply(Pod("e", (container(),))))
    assert made.view().pods["e"].phase is Phase.RUNNING


@pytest.mark.parametrize(
    ("release", "phase"),
    [("1.22", Phase.RUNNING), ("1.26.4", Phase.RUNNING), ("1.26.15", Phase.REJECTED)],
)
def test_a_reboot_before_the_plugin_registers(release: str, phase: Phase) -> None:
    """kubernetes/kubernetes#109595."""
    made = node(release)
    made.do(Stop())
    made.do(Reboot())
    made.do(Start())
    assert made.view().pods["a"].phase is phase


@pytest.mark.parametrize("release", ["1.35", "1.36"])
def test_a_refused_pod_whose_device_becomes_healthy_may_count_for_a_while(release: str) -> None:
    """From 1.36 on it is synced, and active until its worker has ended."""
    config = KubeletConfig(reserved_system_cpus=CPUSet([0]))
    made = Node(
        lambda name: topologies.machine(name).tree, "1s-1n-2c-smt1", config, release=release
    )
    devices = RegisterDevices(NIC, (Device("d0"),))
    large = Pod("a", (Container("c", "2", "2", devices=((NIC, 1),), memory_limit="1Mi"),))
    small, shared = guaranteed("b", 1), Pod("s", (Container("c"),))
    near = Pod("n", (Container("c", devices=((NIC, 1),)),))
    two = Pod("t", tuple(Container(name, devices=((NIC, 1),)) for name in "cd"))
    for step in (Start(), devices, Apply(large), Stop(), Start()):
        made.do(step)
    assert made.view().pods["a"].phase is Phase.REJECTED
    made.do(devices)
    made.do(Apply(shared))
    assert made.view().pods["s"].phase is Phase.RUNNING
    if release == "1.36":
        with pytest.raises(NotModelled, match=r"pod b: .* may still count a refused pod"):
            made.do(Apply(small))
        with pytest.raises(NotModelled, match=r"pod n: .* may still count a refused pod"):
            made.do(Apply(near))  # its device, too
        with pytest.raises(NotModelled, match=r"pod t: .* may still count a refused pod"):
            made.do(Apply(two))  # which is refused, but when is not known
        assert "b" not in made.view().pods
        made.do(Delete("a"))
    made.do(Apply(small))
    assert made.view().pods["b"].phase is Phase.RUNNING


def test_devices_of_a_refused_pod_are_in_the_checkpoint_until_it_is_written() -> None:
    """That they are free again is no reason to write it: the next kubelet finds them held (seen on
    1.36.4)."""
    config = KubeletConfig(reserved_system_cpus=CPUSet([0]), topology_manager_policy="best-effort")
    made = Node(lambda name: topologies.machine(name).tree, "1s-1n-2c-smt1", config, release="1.36")
    devices = RegisterDevices(NIC, (Device("d0", (0,)), Device("d1", (0,))))
    large = Pod("a", (Container("c", "2", "2", devices=((NIC, 1),), memory_limit="1Mi"),))
    shared = Pod("s", (Container("c"),))
    for step in (Start(), devices, Apply(large), Apply(shared), Stop(), Start(), devices):
        made.do(step)
    with pytest.raises(NotModelled, match=r"pod b: .* may still count a refused pod"):
        made.do(Apply(guaranteed("b", 1)))


def test_a_device_that_only_an_init_container_got_is_not_modelled_without_its_plugin() -> None:
    """Of a pod that was refused halfway: at the next start its app container would use it again."""
    config = KubeletConfig(
        reserved_system_cpus=CPUSet([0]),
        policy_options={"full-pcpus-only": "true"},
        feature_gates={"CPUManagerPolicyOptions": True},
    )
    first, odd, app = (
        replace(container(name, count, kind=kind), cpu_request=cpus, cpu_limit=cpus)
        for name, count, kind, cpus in (
            ("first", 1, Kind.INIT, "2"), ("odd", 0, Kind.INIT, "1"), ("app", 1, Kind.APP, "2"),
        )
    )  # fmt: skip
    made = Node(
        lambda name: topologies.machine(name).tree, "2s-2n-16c-smt2", config, release="1.22"
    )
    devices = RegisterDevices(NIC, (Device("d0", (1,)),))
    plain = Configure(replace(config, policy_options={}))
    for step in (Start(), devices, Apply(Pod("a", (first, odd, app))), Stop(), plain):
        made.do(step)
    with pytest.raises(NotModelled, match="without its plugin"):
        made.do(Start())


def test_a_pod_without_devices_frees_those_of_no_other() -> None:
    """What a refused pod was given is forgotten once another container requests such a device
    (``allocateContainerResources``; seen on 1.26.15)."""
    config = KubeletConfig(reserved_system_cpus=CPUSet([0]))
    made = Node(lambda name: topologies.machine(name).tree, "1s-1n-2c-smt1", config, release="1.26")
    refused = Pod("b", (container("first"), exclusive("second", 1)))
    steps = (RegisterDevices(NIC, (Device("d0"),)), Apply(refused), Apply(guaranteed("a", 1)))
    for step in (Start(), *steps, Stop(kill=True), Delete("a"), Start(), AskPodResources()):
        made.do(step)
    assert made.view().pods["b"].phase is Phase.REJECTED
    assert made.view().devices["b"] == {"first": {HeldDevice(NIC, "d0", ())}, "second": frozenset()}


POOLED = KubeletConfig(
    reserved_system_cpus=CPUSet([0]),
    topology_manager_policy="single-numa-node",
    topology_manager_scope="pod",
    feature_gates={"PodLevelResourceManagers": True},
)


def test_a_pod_with_cpus_as_a_whole_gets_its_devices_as_its_containers_start() -> None:
    """Near to the hint of its admission, and no others after a restart; seen on 1.36.4."""
    made = Node(lambda name: topologies.machine(name).tree, "2s-2n-16c-smt2", POOLED)
    devices = RegisterDevices(NIC, (Device("d0", (0,)), Device("d1", (1,))))
    whole = replace(Pod("a", (container(),)), resources=PodResources("2", "2", "1Gi", "1Gi"))
    for step in (Start(), devices, Apply(guaranteed("fills-node-0", 15)), Apply(whole)):
        made.do(step)
    for restart in ((), (Stop(), Start(), devices)):
        for step in (*restart, AskPodResources()):
            made.do(step)
        assert made.view().devices["a"] == {"c": {HeldDevice(NIC, "d1", (1,))}}


def test_an_ephemeral_container_of_such_a_pod_gets_no_device() -> None:
    config = replace(POOLED, api_server=True)
    made = Node(lambda name: topologies.machine(name).tree, "2s-2n-16c-smt2", config)
    whole = replace(Pod("a", (container(),)), resources=PodResources("2", "2", "1Gi", "1Gi"))
    devices = RegisterDevices(NIC, (Device("d0", (0,)),))
    for step in (Start(), devices, Apply(whole), AddEphemeral("a", "debugger"), AskPodResources()):
        made.do(step)
    assert made.view().devices["a"] == {"c": {HeldDevice(NIC, "d0", (0,))}}


def test_the_node_predicates_count_what_such_a_pod_requests() -> None:
    """Nothing was handed out by then. A plugin that has not come again has no devices; seen on
    1.36.4."""
    made = Node(lambda name: topologies.machine(name).tree, "2s-2n-16c-smt2", POOLED)
    whole = replace(Pod("a", (container(count=2),)), resources=PodResources("2", "2", "1Gi", "1Gi"))
    devices = RegisterDevices(NIC, (Device("d0"), Device("d1")))
    for step in (Start(), devices, Apply(whole), Apply(replace(whole, name="b", uid="b"))):
        made.do(step)
    assert made.view().pods["a"].phase is Phase.RUNNING
    assert made.view().pods["b"].message.endswith(f"resources: [(res: {NIC}, q: 2), ]")
    for step in (Delete("a"), Stop(), Start()):
        made.do(step)
    assert made.view().pods["b"].message.endswith(f"resources: [(res: {NIC}, q: 2), ]")


def test_steps_that_cannot_be_taken() -> None:
    made = node("1.36")
    made.do(Stop())
    with pytest.raises(IllegalStep, match="RegisterDevices: the kubelet does not run"):
        made.do(RegisterDevices(NIC, ()))
    with pytest.raises(NotModelled, match=r"RegisterDevices: devices of release 1\.19"):
        node("1.19")


def test_the_sentences_name_devices_and_numa_nodes() -> None:
    step = RegisterDevices(NIC, (Device("d0", (0, 1)), Device("d1", (1,)), Device("d2")))
    assert step.sentence == (
        f"register the devices d0 on NUMA nodes 0-1, d1 on NUMA node 1, d2 as {NIC}"
    )
    assert Apply(Pod("a", (container(count=2),))).sentence.endswith(f"c: 1 CPU, 2 {NIC})")
