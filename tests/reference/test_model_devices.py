"""The device manager of the model: hints, and who gets which devices."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from conformance.pods import exclusive, guaranteed, guaranteed_of
from reference import CPUSet, IllegalStep, NotModelled
from reference.devicemanager.manager import DeviceManager
from reference.devicemanager.topology_hints import generate_device_topology_hints
from reference.errors import DeviceError
from reference.steps import (
    AddEphemeral,
    Apply,
    AskAllocatable,
    AskPodResources,
    Configure,
    Container,
    Delete,
    Device,
    EndDevicePlugin,
    Kind,
    KubeletConfig,
    Pod,
    PodResources,
    Reboot,
    RegisterDevices,
    ReportDevices,
    Start,
    Stop,
)
from reference.topologymanager.hint import Hint
from reference.view import HeldDevice, Offered, Phase
from tests.reference import nodes
from tests.reference.nodes import do

NIC = "pinproof.invalid/nic"
ONE = {"d0": Device("d0", (0,)), "d1": Device("d1", (1,)), "d2": Device("d2", (1,))}


def hints(*ids: str, request: int, release: str = "1.36", nodes: int = 3) -> list[str]:
    """Of devices of which these are available."""
    made = generate_device_topology_hints(ONE, ids, (), request, range(nodes), release=release)
    return [str(one) for one in made]


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


def test_another_number_than_before_is_refused() -> None:
    made = manager(Device("d0", (0,)), Device("d1", (0,)))
    pod, more = Pod("a", (container(),)), Pod("a", (container(count=2),))
    made.allocate(pod, pod.containers[0], NIC, None)
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


def test_a_call_of_the_plugin_that_fails_takes_no_device() -> None:
    """``allocateContainerResources``. A copy counts such calls by itself. Go's map order decides
    which of several resources come before it."""
    made = manager(Device("d0", (0,)))
    made.failures[NIC] = 1
    pod = Pod("a", (container(),))
    several = replace(container(), devices=((NIC, 1), ("gpu", 1)))
    with pytest.raises(NotModelled, match="container c: one of its device plugins fails"):
        made.allocate(pod, several, NIC, None)
    for one in (made.copy(), made):
        with pytest.raises(DeviceError, match="code = Unavailable desc = the devices are not"):
            one.allocate(pod, pod.containers[0], NIC, None)
        assert not held(one, pod)
        one.allocate(pod, pod.containers[0], NIC, None)
        assert held(one, pod) == ["d0"]


def test_sidecars_under_scope_pod_are_not_modelled() -> None:
    made = manager(Device("d0", (0,)))
    pod = Pod("a", (container("side", kind=Kind.SIDECAR), container()))
    with pytest.raises(NotModelled, match="devices of a sidecar under scope pod"):
        made.pod_topology_hints(pod, NIC)


# ---- a whole node --------------------------------------------------------------------------------


CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0]))
ALIGNED = replace(CONFIG, topology_manager_policy="single-numa-node")
SMALL, LARGE = "1s-1n-2c-smt1", "2s-2n-16c-smt2"
small = partial(nodes.booted, config=CONFIG, machine=SMALL)
large = partial(nodes.booted, config=ALIGNED, machine=LARGE)

ON_NODE_1 = RegisterDevices(NIC, (Device("d0", (1,)),))
A = Apply(Pod("a", (container(),)))


@pytest.mark.parametrize(
    ("release", "phase"),
    [("1.22", Phase.RUNNING), ("1.26.4", Phase.RUNNING), ("1.26.15", Phase.REJECTED)],
)
def test_a_reboot_before_the_plugin_registers(release: str, phase: Phase) -> None:
    """kubernetes/kubernetes#109595."""
    made = large(ON_NODE_1, A, Stop(), Reboot(), Start(), release=release)
    assert made.view().pods["a"].phase is phase


WHOLE_NODE = Apply(Pod("a", (Container("c", "2", "2", devices=((NIC, 1),), memory_limit="1Mi"),)))
SHARED = Apply(Pod("s", (Container("c"),)))


def test_which_devices_of_an_init_container_are_used_again_is_chance() -> None:
    """Where it leaves more than the next container requests (``allocateRemainingFrom`` ranges over
    a Go map; d0 four times and d1 twice on 1.36.4). How many are taken is known."""
    devices = RegisterDevices(NIC, (Device("d0", (0,)), Device("d1", (1,))))
    init, app = container("init", 2, kind=Kind.INIT), container("app")
    made = large(devices, Apply(Pod("a", (init, app))), config=CONFIG)
    assert made.view().pods["a"].phase is Phase.RUNNING
    with pytest.raises(NotModelled, match="app: Go's map order has chosen its devices"):
        made.do(AskPodResources())
    rejected = do(made, Apply(Pod("b", (container("app"),)))).pods["b"]
    assert rejected.phase is Phase.REJECTED
    made.do(Delete("a"))
    assert do(made, Apply(Pod("c", (app,))), AskPodResources()).devices["c"]["app"]


def test_hints_by_devices_of_chance_are_not_modelled() -> None:
    """The second app uses what the first has left: near to NUMA node 0, or to NUMA node 1."""
    init, apps = container("init", 2, kind=Kind.INIT), (container("one"), container("two"))
    pod = Apply(Pod("a", (init, *apps)))
    best_effort = replace(CONFIG, topology_manager_policy="best-effort")
    far = RegisterDevices(NIC, (Device("d0", (0,)), Device("d1", (1,))))
    with pytest.raises(NotModelled, match="hints by devices that Go's map order has chosen"):
        large(far, pod, config=best_effort)
    near = RegisterDevices(NIC, (Device("d0", (0,)), Device("d1", (0,))))
    assert large(near, pod, config=best_effort).view().pods["a"].phase is Phase.RUNNING


@pytest.mark.parametrize("release", ["1.35", "1.36"])
def test_a_refused_pod_whose_device_becomes_healthy_may_count_for_a_while(release: str) -> None:
    """From 1.36 on it is synced, and active until its worker has ended."""
    devices = RegisterDevices(NIC, (Device("d0"),))
    another = Apply(guaranteed("b", 1))
    near = Apply(Pod("n", (Container("c", devices=((NIC, 1),)),)))
    two = Apply(Pod("t", tuple(Container(name, devices=((NIC, 1),)) for name in "cd")))
    made = small(devices, WHOLE_NODE, Stop(), Start(), release=release)
    assert made.view().pods["a"].phase is Phase.REJECTED
    assert do(made, devices, SHARED).pods["s"].phase is Phase.RUNNING
    if release == "1.36":
        # Its device, too; two are refused, but when is not known.
        for step, name in ((another, "b"), (near, "n"), (two, "t")):
            with pytest.raises(NotModelled, match=f"pod {name}: .* may still count a refused pod"):
                made.do(step)
        assert "b" not in made.view().pods
        made.do(Delete("a"))
    assert do(made, another).pods["b"].phase is Phase.RUNNING


def test_devices_of_a_refused_pod_are_in_the_checkpoint_until_it_is_written() -> None:
    """That they are free again is no reason to write it: the next kubelet finds them held (seen on
    1.36.4)."""
    config = replace(CONFIG, topology_manager_policy="best-effort")
    devices = RegisterDevices(NIC, (Device("d0", (0,)), Device("d1", (0,))))
    made = small(devices, WHOLE_NODE, SHARED, Stop(), Start(), devices, config=config)
    with pytest.raises(NotModelled, match=r"pod b: .* may still count a refused pod"):
        made.do(Apply(guaranteed("b", 1)))


def test_a_device_that_only_an_init_container_got_is_not_modelled_without_its_plugin() -> None:
    """Of a pod that was refused halfway: at the next start its app container would use it again."""
    plain = replace(CONFIG, feature_gates={"CPUManagerPolicyOptions": True})
    whole_cores = replace(plain, policy_options={"full-pcpus-only": "true"})
    first, odd, app = (
        replace(container(name, count, kind=kind), cpu_request=cpus, cpu_limit=cpus)
        for name, count, kind, cpus in (
            ("first", 1, Kind.INIT, "2"), ("odd", 0, Kind.INIT, "1"), ("app", 1, Kind.APP, "2"),
        )
    )  # fmt: skip
    steps = (ON_NODE_1, Apply(Pod("a", (first, odd, app))), Stop(), Configure(plain))
    made = large(*steps, config=whole_cores, release="1.22")
    with pytest.raises(NotModelled, match="without its plugin"):
        made.do(Start())


def test_the_next_kubelet_has_a_plugin_that_works() -> None:
    failing = replace(ON_NODE_1, failures=2)
    made = large(failing, A)
    refused = made.view().pods["a"]
    assert refused.phase is Phase.REJECTED
    assert "Allocate failed due to rpc error: code = Unavailable" in refused.message
    made = large(failing, Stop(), Start(), ON_NODE_1, A)
    assert made.view().pods["a"].phase is Phase.RUNNING


def test_a_pod_without_devices_frees_those_of_no_other() -> None:
    """What a refused pod was given is forgotten once another container requests such a device
    (``allocateContainerResources``; seen on 1.26.15)."""
    refused = Apply(Pod("b", (container("first"), exclusive("second", 1))))
    view = small(
        RegisterDevices(NIC, (Device("d0"),)),
        refused,
        Apply(guaranteed("a", 1)),
        *(Stop(kill=True), Delete("a"), Start(), AskPodResources()),
        release="1.26",
    ).view()
    assert view.pods["b"].phase is Phase.REJECTED
    assert view.devices["b"] == {"first": {HeldDevice(NIC, "d0", ())}, "second": frozenset()}


POOLED = replace(
    ALIGNED, topology_manager_scope="pod", feature_gates={"PodLevelResourceManagers": True}
)
WHOLE = Apply(Pod("a", (container(),), resources=PodResources("2", "2", "1Gi", "1Gi")))


def test_a_pod_with_cpus_as_a_whole_gets_its_devices_as_its_containers_start() -> None:
    """Near to the hint of its admission, and no others after a restart; seen on 1.36.4."""
    devices = RegisterDevices(NIC, (Device("d0", (0,)), Device("d1", (1,))))
    made = large(devices, Apply(guaranteed("fills-node-0", 15)), WHOLE, config=POOLED)
    for restart in ((), (Stop(), Start(), devices)):
        seen = do(made, *restart, AskPodResources()).devices["a"]
        assert seen == {"c": {HeldDevice(NIC, "d1", (1,))}}


def test_an_ephemeral_container_of_such_a_pod_gets_no_device() -> None:
    config = replace(POOLED, api_server=True)
    steps = (ON_NODE_1, WHOLE, AddEphemeral("a", "debugger"), AskPodResources())
    view = large(*steps, config=config).view()
    assert view.devices["a"] == {"c": {HeldDevice(NIC, "d0", (1,))}}


def test_the_node_predicates_count_what_such_a_pod_requests() -> None:
    """Nothing was handed out by then. A plugin that has not come again has no devices; seen on
    1.36.4."""
    devices = RegisterDevices(NIC, (Device("d0"), Device("d1")))
    whole = PodResources("2", "2", "1Gi", "1Gi")
    a, b = (Apply(Pod(name, (container(count=2),), resources=whole)) for name in "ab")
    made = large(devices, a, b, config=POOLED)
    assert made.view().pods["a"].phase is Phase.RUNNING
    refusal = f"resources: [(res: {NIC}, q: 2), ]"
    assert made.view().pods["b"].message.endswith(refusal)
    assert do(made, Delete("a"), Stop(), Start()).pods["b"].message.endswith(refusal)


def test_an_unhealthy_device_is_not_handed_out() -> None:
    """Hints leave it out, and it is not reported as allocatable."""
    near, far = Device("d0", (0,)), Device("d1", (1,))
    sick = replace(near, healthy=False)
    aligned = KubeletConfig(
        reserved_system_cpus=CPUSet([0]), topology_manager_policy="single-numa-node"
    )
    a, b = (Apply(guaranteed_of(name, [container()])) for name in "ab")
    made = large(RegisterDevices(NIC, (near, far)), ReportDevices(NIC, (sick, far)), config=aligned)
    assert do(made, AskAllocatable()).allocatable_devices == {HeldDevice(NIC, "d1", (1,))}
    assert do(made, a, AskPodResources()).devices["a"]["c"] == {HeldDevice(NIC, "d1", (1,))}
    assert do(made, b).pods["b"].phase is Phase.REJECTED
    healed = do(made, Delete("b"), ReportDevices(NIC, (near, far)), b, AskPodResources())
    assert healed.devices["b"]["c"] == {HeldDevice(NIC, "d0", (0,))}


@pytest.mark.parametrize("release", ["1.20", "1.26", "1.36"])
def test_unhealthy_devices_count_as_capacity(release: str) -> None:
    """Also those of a plugin that has gone away, until one comes again."""
    config = KubeletConfig(reserved_system_cpus=CPUSet([0]), api_server=True)
    devices = (Device("d0", healthy=False), Device("d1"))
    made = large(RegisterDevices(NIC, (Device("d0"), Device("d1"))), config=config, release=release)
    assert made.view().offered == {}
    assert do(made, ReportDevices(NIC, devices)).offered == {NIC: Offered(2, 1)}
    pods = [Apply(Pod(name, (container(),))) for name in "abc"]
    assert do(made, pods[0]).pods["a"].phase is Phase.RUNNING
    assert do(made, EndDevicePlugin(NIC)).offered == {NIC: Offered(2, 0)}
    assert do(made, Delete("a"), pods[1]).pods["b"].phase is Phase.REJECTED
    assert do(made, Delete("b"), RegisterDevices(NIC, devices)).offered == {}
    assert do(made, pods[2]).pods["c"].phase is Phase.RUNNING
    assert str(Offered(2, 1)) == "2, of which 1 allocatable"


def test_a_copy_keeps_which_plugins_are_gone() -> None:
    made = manager(Device("d0"))
    twin = made.copy()
    made.end_plugin(NIC)
    assert [one.has_plugin(NIC) for one in (made, made.copy(), twin)] == [False, False, True]


def test_steps_that_cannot_be_taken() -> None:
    with pytest.raises(IllegalStep, match=f"ReportDevices: no device plugin serves {NIC}"):
        large(ReportDevices(NIC, (Device("d0"),)))
    with pytest.raises(NotModelled, match="EndDevicePlugin: only an API server shows"):
        large(ON_NODE_1, EndDevicePlugin(NIC))
    with pytest.raises(IllegalStep, match="RegisterDevices: the kubelet does not run"):
        large(Stop(), ON_NODE_1)
    with pytest.raises(NotModelled, match=r"RegisterDevices: devices of release 1\.19"):
        large(ON_NODE_1, release="1.19")
    with pytest.raises(NotModelled, match="device hints on 21 NUMA nodes"):
        hints("d0", request=1, release="1.35", nodes=21)
