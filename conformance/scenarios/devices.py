"""Devices beside CPUs: on which NUMA nodes the CPUs of a container lie that requests devices as
well, and what a restart leaves of it.

The devices are those of a plugin that starts for the scenario, and are called after the NUMA node
that they are near to. The *far* NUMA node is the last one that has CPUs; CPUs alone would be taken
from another.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import exclusive, guaranteed, guaranteed_of
from conformance.scenario import Capability, Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import API_SERVER, ASKS, DEVICES, LISTS, REJECTIONS, RESTARTED
from conformance.scenarios.aligning import BEST_EFFORT, RESTRICTED, SINGLE, aligning_alone
from conformance.scenarios.entering import row
from conformance.scenarios.hint_parts import (
    NIC,
    TWO_NODES,
    far_node,
    first_node,
    promise_lies_in,
    promise_phase,
    promise_refused,
    register,
    require_few_nodes,
    run,
    run_in,
)
from conformance.scenarios.optional import aligning_with
from conformance.scenarios.outcomes import take
from conformance.scenarios.sources import TOPOLOGY_POLICIES, TOPOLOGY_SCOPES
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.devicemanager.manager import NOT_READY
from reference.steps import (
    AskAllocatable,
    Container,
    Device,
    EndDevicePlugin,
    Kind,
    KubeletConfig,
    Pod,
    ReportDevices,
)
from reference.view import HeldDevice, Phase, PodView

INTEGRATION: Final = sources.documentation(
    "Device Plugins: integration with the Topology Manager",
    f"{sources.PLUGINS}#device-plugin-integration-with-the-topology-manager",
)
LIST: Final = sources.documentation(
    "Device Plugins: the List endpoint", f"{sources.PLUGINS}#grpc-endpoint-list"
)
RESTART: Final = sources.issue(
    118559, "running pods with devices are terminated if the kubelet is restarted"
)
COUNTED: Final = sources.pull(135485, "a container that has restarted counts as running")
UNCHECKED: Final = sources.issue(
    109595, "the device manager recovers devices that are not there after a node restart"
)
INIT_RESTART: Final = sources.issue(
    138446, "a kubelet restart refuses pods with devices in init and app containers"
)
REUSE: Final = sources.issue(56022, "devices of init containers are used again by app containers")
KEPT_BY_SIDECARS: Final = sources.pull(120461, "a sidecar keeps its devices")
SHRUNK: Final = sources.issue(
    139430, "the CPU manager shrinks the Topology Manager's choice of NUMA nodes"
)
DEVICE_NODES: Final = sources.pull(138244, "device hints name NUMA nodes that have devices")
HEALTH: Final = sources.documentation(
    "Device Plugins: device plugin and unhealthy devices",
    f"{sources.PLUGINS}#device-plugin-and-unhealthy-devices",
)
ALLOCATE: Final = sources.documentation(
    "Device Plugins: device plugin implementation",
    f"{sources.PLUGINS}#device-plugin-implementation",
)

NAMES_NONE: Final = sources.issue(112234, "a device with an empty list of NUMA nodes")
WITHOUT: Final = sources.pull(103289, "a device without a NUMA node is not reported with node 0")

_NO_ROOM: Final = ("TopologyAffinityError", "with Topology locality")
GPU: Final = "pinproof.invalid/gpu"
_UNHEALTHY: Final = f"no healthy devices present; cannot allocate unhealthy devices {NIC}"


of_devices: Final = partial(
    promised, area="devices", since="1.20", needs=TWO_NODES, capabilities=DEVICES
)
_row: Final = partial(row, enter=of_devices)
_reported: Final = partial(of_devices, source=LIST, since="1.23")


# -- what a scenario says and reads ----------------------------------------------------------------


def _in(node: LockstepNode, numa: int) -> CPUSet:
    return node.topology.cpus_in_numa_nodes(numa)


def _near(numa: int, count: int = 1, *, named: str = "nic") -> tuple[Device, ...]:
    return tuple(Device(f"{named}-{numa}-{number}", (numa,)) for number in range(count))


def with_devices(container: Container, count: int = 1, *, resource: str = NIC) -> Container:
    """The container, with so many devices of the resource beside those that it requests."""
    return replace(container, devices=(*container.devices, (resource, count)))


def _pod(name: str, cpus: int, count: int = 1) -> Pod:
    """A Guaranteed pod with a container ``c`` that requests so many devices."""
    return guaranteed_of(name, [with_devices(exclusive("c", cpus), count)])


#: The second of two containers requests a device.
_SECOND: Final = guaranteed_of("a", [exclusive("c1", 1), with_devices(exclusive("c2", 1))])
#: An init container and an app container request a device each.
_INIT: Final = with_devices(exclusive("init", 1, kind=Kind.INIT))
_WITH_INIT: Final = guaranteed_of("a", [_INIT, with_devices(exclusive("c", 1))])


def _boot(node: LockstepNode, policy: str, *devices: Device, scope: str = "container") -> None:
    """Align by the policy, and register the devices, or two that are near to the far NUMA node."""
    if not node.release_has(Behaviour.DEVICE_HINTS_ON_DEVICE_NODES):
        require_few_nodes(node)
    node.boot(aligning_alone(node, policy, scope=scope))
    register(node, *(devices or _near(far_node(node), 2)))


# -- promises --------------------------------------------------------------------------------------


def _promise_devices(
    node: LockstepNode, what: str, seen: Collection[HeldDevice] | None, *expected: HeldDevice
) -> None:
    shown = {_named(one) for one in seen or ()}
    node.promise_equal(
        "The devices are reported",
        what,
        ", ".join(sorted(map(_named, expected))) or "(none)",
        ", ".join(sorted(shown)) or "(none)",
    )


def _held(numa: int, count: int) -> list[HeldDevice]:
    return [HeldDevice(NIC, one.id, one.numa_nodes) for one in _near(numa, count)]


def _named(one: HeldDevice) -> str:
    return f"{one.resource} {Device(one.id, one.numa_nodes)}"


# -- a device pulls CPUs ---------------------------------------------------------------------------


def _follows(policy: str) -> None:
    """Enter a scenario: under this policy a device decides where CPUs lie."""

    def steps(node: LockstepNode) -> None:
        _boot(node, policy)
        run_in(node, far_node(node), _pod("a", 2), 2)

    _row(
        f"devices/{policy}-follows-a-device",
        f"Under {policy} a container's CPUs lie in the NUMA node of its device",
        "The device is near to the last NUMA node; CPUs alone would lie in another.",
        steps,
        source=TOPOLOGY_POLICIES,
    )


for _policy in (SINGLE, RESTRICTED, BEST_EFFORT):
    _follows(_policy)


@of_devices(TOPOLOGY_POLICIES)
def none_does_not_align(node: LockstepNode) -> None:
    """Under Topology Manager policy none a device does not change where a container's CPUs lie.
    The pod has the CPUs that a pod without a device would have."""
    _boot(node, "none")
    expected = take(node, "plain", 2)
    node.delete("plain", passing=True)
    run(node, _pod("a", 2))
    node.promise_cpus("It has those CPUs", "CPUs of a/c", expected, node.taken("a"))


@of_devices(INTEGRATION)
def without_numa_nodes_do_not_bind(node: LockstepNode) -> None:
    """A device that says nothing of NUMA nodes does not change where a container's CPUs lie.
    Under single-numa-node the CPUs lie in the first NUMA node that has room for them."""
    _boot(node, SINGLE, Device("nic-0"), Device("nic-1"))
    run_in(node, first_node(node), _pod("a", 1))


@of_devices(NAMES_NONE, since="1.26")
def list_of_no_numa_nodes_does_not_bind(node: LockstepNode) -> None:
    """A device whose plugin sends an empty list of NUMA nodes does not change where CPUs lie.
    As one that says nothing of them. Up to 1.25 the kubelet takes it for a device that no NUMA node
    can serve, and single-numa-node refuses the container."""
    _boot(node, SINGLE, Device("nic-0", names_none=True))
    run_in(node, first_node(node), _pod("a", 1))


@of_devices(INTEGRATION)
def two_resources_agree(node: LockstepNode) -> None:
    """Under restricted CPUs and devices of two resources lie in the NUMA node that all have.
    One resource has devices near to the first and the last NUMA node, the other one near to the
    last alone."""
    far = far_node(node)
    _boot(node, RESTRICTED)
    both = (*_near(first_node(node), named="gpu"), *_near(far, named="gpu"))
    register(node, *both, resource=GPU)
    pod = guaranteed_of("a", [with_devices(with_devices(exclusive("c", 2)), resource=GPU)])
    run_in(node, far, pod, 2)


@of_devices(INTEGRATION, capabilities=(*DEVICES, *REJECTIONS))
def two_far_apart_are_refused(node: LockstepNode) -> None:
    """Under single-numa-node devices of two resources in different NUMA nodes are refused.
    Though each NUMA node has CPUs."""
    _boot(node, SINGLE, *_near(first_node(node)))
    register(node, *_near(far_node(node), named="gpu"), resource=GPU)
    pod = guaranteed_of("a", [with_devices(with_devices(exclusive("c", 1)), resource=GPU)])
    promise_refused(node, node.apply(pod), "TopologyAffinityError")


# -- no room near the device -----------------------------------------------------------------------


def _fill_far(node: LockstepNode, left: int = 0) -> None:
    """Leave so many CPUs in the far NUMA node, with one device still free."""
    far = far_node(node)
    size = len(node.free & _in(node, far)) - left
    run_in(node, far, _pod("fills", size), size)


@of_devices(TOPOLOGY_POLICIES, capabilities=(*DEVICES, *REJECTIONS))
def single_numa_node_refuses_without_room(node: LockstepNode) -> None:
    """Under single-numa-node a container is refused whose device's NUMA node has no CPU left.
    Other NUMA nodes have free CPUs. The pool stays as it is."""
    _boot(node, SINGLE)
    _fill_far(node)
    pool = node.view.shared_pool
    promise_refused(node, node.apply(_pod("a", 1)), *_NO_ROOM)
    node.promise_pool("No CPU is taken", pool)


@of_devices(TOPOLOGY_POLICIES, capabilities=(*DEVICES, *REJECTIONS))
def restricted_refuses_without_room(node: LockstepNode) -> None:
    """Under restricted a container is refused whose device's NUMA node has no CPU left.
    One NUMA node could hold CPUs and device, were the machine empty."""
    _boot(node, RESTRICTED)
    _fill_far(node)
    promise_refused(node, node.apply(_pod("a", 1)), *_NO_ROOM)


@of_devices(TOPOLOGY_POLICIES)
def best_effort_runs_without_room(node: LockstepNode) -> None:
    """Under best-effort a container runs whose device's NUMA node has no CPU left.
    Its CPU lies in another NUMA node."""
    _boot(node, BEST_EFFORT)
    _fill_far(node)
    run(node, _pod("a", 1))
    node.promise_equal("It has its CPU", "number of CPUs of a/c", 1, len(node.taken("a")))


@of_devices(DEVICE_NODES, since="1.36")
def best_effort_takes_what_is_near(node: LockstepNode) -> None:
    """From 1.36 on best-effort takes the CPUs near to the device first where they are too few.
    One of two CPUs. No hint of the device names another NUMA node than its own."""
    _boot(node, BEST_EFFORT)
    _fill_far(node, left=1)
    run(node, _pod("a", 2))
    near = node.taken("a") & _in(node, far_node(node))
    node.promise_equal("It has the CPU that is near", "CPUs near to the device", 1, len(near))


@of_devices(DEVICE_NODES, until="1.35", needs=replace(TWO_NODES, numa_cores=4))
def best_effort_takes_the_first_node(node: LockstepNode) -> None:
    """Up to 1.35 best-effort takes CPUs of the first NUMA node where too few are near the device.
    Two CPUs, where one near to the device is left. A hint of the device names other NUMA nodes
    beside its own, so that of two equally narrow choices the first one wins."""
    _boot(node, BEST_EFFORT)
    _fill_far(node, left=1)
    run(node, _pod("a", 2))
    near = node.taken("a") & _in(node, far_node(node))
    node.promise_cpus("It has no CPU near to the device", "CPUs near to it", CPUSet(), near)


# -- several containers ----------------------------------------------------------------------------


@of_devices(TOPOLOGY_SCOPES)
def pod_scope_follows_any_container(node: LockstepNode) -> None:
    """Under scope pod all containers lie in the NUMA node of the device that one of them requests.
    The second container requests the device."""
    _boot(node, SINGLE, scope="pod")
    run(node, _SECOND)
    for name in ("c1", "c2"):
        promise_lies_in(node, far_node(node), "a", 1, name)


@of_devices(TOPOLOGY_SCOPES)
def pod_scope_counts_the_largest_init(node: LockstepNode) -> None:
    """Under scope pod init containers and the app container of a pod share the devices it needs.
    There is one device. Two init containers and an app container request one each."""
    _boot(node, SINGLE, *_near(far_node(node)), scope="pod")
    inits = [with_devices(exclusive(name, 1, kind=Kind.INIT)) for name in ("init1", "init2")]
    run_in(node, far_node(node), guaranteed_of("a", [*inits, with_devices(exclusive("c", 1))]))


@of_devices(TOPOLOGY_SCOPES)
def container_scope_follows_its_own(node: LockstepNode) -> None:
    """Under scope container a device decides for the container that requests it and for no other.
    The first container lies in the first NUMA node, the second one with its device."""
    _boot(node, SINGLE)
    run(node, _SECOND)
    promise_lies_in(node, first_node(node), "a", 1, "c1")
    promise_lies_in(node, far_node(node), "a", 1, "c2")


@of_devices(REUSE)
def init_device_is_used_again(node: LockstepNode) -> None:
    """An app container uses the device of its pod's init container again, and the CPUs beside it.
    There is one device, and both containers request one."""
    _boot(node, SINGLE, *_near(far_node(node)))
    run_in(node, far_node(node), _WITH_INIT)
    node.promise_cpus("It has its CPU", "a/c", node.taken("a", "init"), node.taken("a"))


@of_devices(KEPT_BY_SIDECARS, since="1.30", capabilities=(*DEVICES, *LISTS))
def sidecar_keeps_its_device(node: LockstepNode) -> None:
    """A sidecar keeps its device beside the app container of its pod, which has another one.
    Both request one, as they run at the same time."""
    far = far_node(node)
    _boot(node, SINGLE)
    sidecar = with_devices(exclusive("side", 1, kind=Kind.SIDECAR))
    run(node, guaranteed_of("a", [sidecar, with_devices(exclusive("c", 1))]))
    listed = node.ask().devices.get("a", {})
    first, second = _held(far, 2)
    _promise_devices(node, "devices of a/side", listed.get("side"), first)
    _promise_devices(node, "devices of a/c", listed.get("c"), second)


# -- how many there are ----------------------------------------------------------------------------


@of_devices(ALLOCATE, capabilities=(*DEVICES, *REJECTIONS))
def more_than_free_are_refused(node: LockstepNode) -> None:
    """A container that requests more devices than are free is refused, and takes no CPU.
    Under Topology Manager policy none, so that the device manager says why."""
    _boot(node, "none")
    node.apply(_pod("before", 1))
    pool = node.view.shared_pool
    text = f"requested number of devices unavailable for {NIC}. Requested: 2, Available: 1"
    promise_refused(node, node.apply(_pod("a", 1, count=2)), "UnexpectedAdmissionError", text)
    node.promise_pool("No CPU is taken", pool)


@of_devices(ALLOCATE)
def deletion_returns_a_device(node: LockstepNode) -> None:
    """The device of a deleted pod serves the next pod, with CPUs beside it.
    There is one device."""
    _boot(node, SINGLE, *_near(far_node(node)))
    node.apply(_pod("before", 1))
    node.delete("before", passing=True)
    run_in(node, far_node(node), _pod("a", 1))


@of_devices(ALLOCATE, capabilities=(*DEVICES, *REJECTIONS))
def failed_allocation_returns_a_device(node: LockstepNode) -> None:
    """The device that a plugin failed to allocate serves the next pod, with CPUs beside it.
    There is one device. Its plugin fails once: that pod is refused, and holds neither the device
    nor a CPU. The plugin works again for the next pod, which no pod has to make room for."""
    node.boot(aligning_alone(node, "none"))
    register(node, *_near(far_node(node)), failures=1)
    pool = node.view.shared_pool
    promise_refused(node, node.apply(_pod("a", 1)), "UnexpectedAdmissionError", NOT_READY)
    node.promise_pool("No CPU is taken", pool)
    run(node, _pod("next", 1))
    node.promise_equal("It has its CPU", "number of CPUs of next/c", 1, len(node.taken("next")))


# -- health ----------------------------------------------------------------------------------------


def _unhealthy(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """These devices, the first of which is unhealthy."""
    return (replace(devices[0], healthy=False), *devices[1:])


@of_devices(HEALTH)
def unhealthy_one_is_given_to_no_pod(node: LockstepNode) -> None:
    """A device that becomes unhealthy is given to no pod until it is healthy again.
    Under single-numa-node a pod's CPUs lie beside the device that is healthy, though there are
    others in the first NUMA node. They lie there once the device in it works again."""
    first, far = first_node(node), far_node(node)
    devices = (*_near(first), *_near(far))
    _boot(node, SINGLE, *devices)
    node.to_runtime(ReportDevices(NIC, _unhealthy(devices)))
    run_in(node, far, _pod("a", 1))
    node.to_runtime(ReportDevices(NIC, devices))
    run_in(node, first, _pod("b", 1))


@of_devices(HEALTH, needs=Needs(), capabilities=(*DEVICES, *API_SERVER))
def capacity_keeps_unhealthy_ones(node: LockstepNode) -> None:
    """Unhealthy devices, and those of a plugin that goes away, stay in the node's capacity.
    They are not allocatable, so the scheduler sends no pod for them. Of two devices one becomes
    unhealthy, and then their plugin ends. The capacity is as it was, so that the node is seen to
    lack devices that it has had."""
    node.boot(replace(node.default_config(), api_server=True))
    devices = (Device("nic-0"), Device("nic-1"))
    register(node, *devices)
    node.to_runtime(ReportDevices(NIC, _unhealthy(devices)))
    _promise_offered(node, "The unhealthy device is not allocatable", 1)
    node.to_runtime(EndDevicePlugin(NIC))
    _promise_offered(node, "No device is allocatable without its plugin", 0)


def _promise_offered(node: LockstepNode, rule: str, allocatable: int) -> None:
    """The capacity is two devices whatever becomes of them."""
    offered = node.view.offered.get(NIC)
    allocated = offered and offered.allocatable
    node.promise_equal(rule, "allocatable devices of the node", allocatable, allocated)
    capacity = offered and offered.capacity
    node.promise_equal("The capacity stays", "capacity of the node in devices", 2, capacity)


# -- restarts --------------------------------------------------------------------------------------


@of_devices(RESTART, capabilities=(*DEVICES, *RESTARTED))
def restart_keeps_cpus(node: LockstepNode) -> None:
    """A running pod keeps its CPUs over a restart, before and after its device plugin registers.
    A pod without a device before it leaves a gap in the first NUMA node, which it could move
    to."""
    _boot(node, SINGLE)
    node.apply(guaranteed("gap", 1))
    node.apply(_pod("a", 1))
    held = node.taken("a")
    node.delete("gap")
    node.kill()
    promise_phase(node, "a", node.start().pods["a"], Phase.RUNNING)
    node.promise_cpus("It has its CPUs before", "CPUs of a/c", held, node.taken("a"))
    register(node, *_near(far_node(node), 2))
    node.promise_cpus("It has its CPUs afterwards", "CPUs of a/c", held, node.taken("a"))
    run_in(node, far_node(node), _pod("b", 1))


@of_devices(COUNTED, since="1.36", capabilities=(*DEVICES, *RESTARTED))
def restart_keeps_what_has_restarted(node: LockstepNode) -> None:
    """From 1.36 on a restart keeps a pod whose container with a device has restarted before.
    The container runs as the pod is admitted, though an earlier instance of it has ended, and the
    device plugin has not registered again. Before, the order of a Go map decided."""
    _boot(node, SINGLE)
    run(node, _pod("a", 1))
    held = node.taken("a")
    node.kill_container("a")
    node.kill()
    promise_phase(node, "a", node.start().pods["a"], Phase.RUNNING)
    node.promise_cpus("It has its CPUs", "CPUs of a/c", held, node.taken("a"))


@of_devices(RESTART, capabilities=(*DEVICES, *RESTARTED, *REJECTIONS))
def restart_keeps_the_device(node: LockstepNode) -> None:
    """After a restart of the kubelet a running pod's device is given to no other pod.
    There is one device. The kubelet has it in its checkpoint."""
    _boot(node, SINGLE, *_near(far_node(node)))
    node.apply(_pod("before", 1))
    node.restart()
    register(node, *_near(far_node(node)))
    promise_refused(node, node.apply(_pod("a", 1)), "TopologyAffinityError")


@of_devices(RESTART, capabilities=(*DEVICES, *RESTARTED))
def deleted_while_down_returns_its_device(node: LockstepNode) -> None:
    """The device of a pod that is deleted while the kubelet is down serves the next pod.
    There is one device. The kubelet has it in its checkpoint, with a pod that is gone."""
    _boot(node, SINGLE, *_near(far_node(node)))
    node.apply(_pod("gone", 1))
    node.stop()
    node.delete("gone")
    node.start()
    register(node, *_near(far_node(node)))
    run_in(node, far_node(node), _pod("a", 1))


def _reboot(node: LockstepNode) -> PodView:
    """A pod with a device, on a machine that is booted again; its plugin is late."""
    _boot(node, SINGLE)
    node.apply(_pod("a", 1))
    node.stop()
    node.reboot()
    return node.start().pods["a"]


@of_devices(
    UNCHECKED, since="1.28", capabilities=(*DEVICES, *RESTARTED, Capability.REBOOT, *REJECTIONS)
)
def late_plugin_after_a_reboot_is_refused(node: LockstepNode) -> None:
    """From 1.28 on a pod is refused after a reboot as long as its device plugin has not registered.
    Its CPUs return. Up to 1.24 it ran, whether its device was there or not. Of 1.25, 1.26 and
    1.27 the last patch releases have the check."""
    promise_refused(node, _reboot(node), "UnexpectedAdmissionError", _UNHEALTHY)
    node.pass_admission()
    node.promise_cpus("Its CPUs return", "CPUs of a/c", CPUSet(), node.taken("a"))


@of_devices(UNCHECKED, until="1.24", capabilities=(*DEVICES, *RESTARTED, Capability.REBOOT))
def late_plugin_after_a_reboot_is_not_checked(node: LockstepNode) -> None:
    """Up to 1.24 a pod runs on its CPUs after a reboot, though its device plugin has not
    registered.
    The kubelet's checkpoint has the device."""
    promise_phase(node, "a", _reboot(node), Phase.RUNNING)
    promise_lies_in(node, far_node(node), "a", 1)


@of_devices(INIT_RESTART, since="1.28", capabilities=(*DEVICES, *RESTARTED, *REJECTIONS))
def restart_refuses_ended_init_container(node: LockstepNode) -> None:
    """A restarted kubelet refuses a running pod whose init container had a device.
    A known defect: the kubelet checks the devices of every container that does not run. The init
    container has ended, and the device plugin has not registered again when the pod is admitted. No
    release mends it. The last patch releases of 1.25, 1.26 and 1.27 have the defect too."""
    _boot(node, SINGLE)
    run(node, _WITH_INIT)
    node.kill()
    promise_refused(node, node.start().pods["a"], "UnexpectedAdmissionError", _UNHEALTHY)


# -- what is reported ------------------------------------------------------------------------------


@_reported(capabilities=(*DEVICES, *LISTS))
def list_has_every_numa_node_of_a_device(node: LockstepNode) -> None:
    """The pod-resources socket reports a device that is near to two NUMA nodes with both.
    They are those that its plugin names."""
    near = (first_node(node), far_node(node))
    _boot(node, BEST_EFFORT, Device("nic-both", near))
    run(node, _pod("a", 1))
    listed = node.ask().devices.get("a", {}).get("c")
    _promise_devices(node, "devices of a/c", listed, HeldDevice(NIC, "nic-both", near))


@_reported(source=WITHOUT, capabilities=(*DEVICES, *LISTS))
def list_has_no_numa_node_for_others(node: LockstepNode) -> None:
    """The pod-resources socket reports a device without NUMA nodes with none.
    Its plugin says nothing of them. A device of NUMA node 0 is another thing."""
    _boot(node, BEST_EFFORT, Device("nic-0"))
    run(node, _pod("a", 1))
    listed = node.ask().devices.get("a", {}).get("c")
    _promise_devices(node, "devices of a/c", listed, HeldDevice(NIC, "nic-0", ()))


@_reported(capabilities=(*DEVICES, *LISTS, *RESTARTED))
def list_has_devices_beside_cpus(node: LockstepNode) -> None:
    """The pod-resources socket reports a container's device with its NUMA node beside its CPUs.
    A container without a device has none, and a restart changes nothing of it."""
    _boot(node, SINGLE)
    far = far_node(node)
    node.apply(_pod("a", 1))
    node.apply(guaranteed("plain", 1))
    for restarted in (False, True):
        if restarted:
            node.restart()
            register(node, *_near(far, 2))
        listed = node.ask().devices
        _promise_devices(node, "devices of a/c", listed.get("a", {}).get("c"), *_held(far, 1))
        _promise_devices(node, "devices of plain/c", listed.get("plain", {}).get("c"))
        node.promise_pod_resources("The CPUs are reported", "a", node.taken("a"))


@_reported(capabilities=(*DEVICES, *ASKS))
def allocatable_are_reported(node: LockstepNode) -> None:
    """GetAllocatableResources reports every device with its NUMA node, taken or not.
    One of two is taken. A device that names no NUMA node has none there."""
    far = far_node(node)
    _boot(node, SINGLE, *_near(far, 2))
    register(node, Device("gpu"), resource=GPU)
    node.apply(_pod("a", 1))
    expected = _held(far, 2)
    seen = node.ask(AskAllocatable()).allocatable_devices
    _promise_devices(node, "devices that pods could have", seen, *expected, HeldDevice(GPU, "gpu"))


@_reported(source=NAMES_NONE, since="1.26", capabilities=(*DEVICES, *ASKS))
def allocatable_lack_an_empty_list(node: LockstepNode) -> None:
    """GetAllocatableResources does not report a device whose plugin sends no NUMA node in a list.
    A known defect: the answer has an entry for each NUMA node of a device. List reports the device
    once a container has it, so more is in use than there is."""
    _boot(node, BEST_EFFORT, Device("nic-0", names_none=True))
    run(node, _pod("a", 1))
    listed = node.ask().devices.get("a", {}).get("c")
    _promise_devices(node, "devices of a/c", listed, HeldDevice(NIC, "nic-0", ()))
    _promise_devices(
        node, "devices that pods could have", node.ask(AskAllocatable()).allocatable_devices
    )


@_reported(capabilities=(*DEVICES, *ASKS, Capability.CONFIGURE))
def policy_none_reports_devices_alone(node: LockstepNode) -> None:
    """Under CPU manager policy none the pod-resources socket reports devices and no CPU.
    Those that pods could have, one of which is taken."""
    reserved = node.default_config().reserved_system_cpus
    node.boot(KubeletConfig(policy="none", reserved_system_cpus=reserved))
    far = far_node(node)
    register(node, *_near(far, 2))
    node.apply(_pod("a", 1))
    seen = node.ask(AskAllocatable())
    _promise_devices(node, "devices that pods could have", seen.allocatable_devices, *_held(far, 2))
    node.promise_cpus("No CPU", "allocatable CPUs", CPUSet(), seen.allocatable or CPUSet())


# -- devices on many NUMA nodes --------------------------------------------------------------------

_shrunk: Final = partial(row, source=SHRUNK, capabilities=DEVICES, machine="2s-4n-64c-smt2")


def _promise_spread(node: LockstepNode, rule: str, numa_nodes: int) -> None:
    """In how many NUMA nodes eight CPUs lie beside four devices, each near to another one."""
    node.boot(aligning_with(node, BEST_EFFORT, "distribute-cpus-across-numa"))
    register(node, *(Device(f"nic-{numa}", (numa,)) for numa in node.topology.numa_masks))
    run(node, _pod("a", 8, count=4))
    node.promise_equal("It has its CPUs", "number of CPUs of a/c", 8, len(node.taken("a")))
    seen = len({node.topology.details[cpu].numa for cpu in node.taken("a")})
    node.promise_equal(rule, "number of NUMA nodes of a/c", numa_nodes, seen)


_shrunk(
    "devices/distribution-shrinks-the-hint",
    "Up to 1.37 distribute-cpus-across-numa takes fewer NUMA nodes than the devices lie in",
    """A known defect: the Topology Manager chooses four NUMA nodes, and the CPU manager takes CPUs
    of the fewest of these that hold the request. Here the container has four devices, each near to
    another NUMA node, and requests no more CPUs than one NUMA node has.""",
    lambda node: _promise_spread(node, "They lie in one", 1),
    since="1.23", until="1.37",
)  # fmt: skip
_shrunk(
    "devices/distribution-reaches-every-device",
    "From 1.38 on distribute-cpus-across-numa takes CPUs from every NUMA node that devices lie in",
    "Four devices, each near to another NUMA node, and CPUs that one NUMA node could hold.",
    lambda node: _promise_spread(node, "They lie in all", 4),
    since="1.38",
)


# -- hints of many resources -----------------------------------------------------------------------

MERGE: Final = sources.issue(
    131738, "merging the hints of four resources on eight NUMA nodes takes 21 minutes"
)


@promised(MERGE, area="devices", since="1.20", capabilities=DEVICES, machine="8s-8n-32c-smt4-near")
def four_resources_on_eight_nodes_may_hang(node: LockstepNode) -> None:
    """CPUs and devices of three resources on eight NUMA nodes may hang the kubelet.
    A known defect: the kubelet merges every combination of hints. Each of the four resources has
    255 hints on eight NUMA nodes, and 255 to the power of four is more than four thousand million
    combinations. A kubelet that finishes gives the container its CPU."""
    node.boot(aligning_alone(node, BEST_EFFORT))
    container = exclusive("c", 1)
    for named in ("nic", "gpu", "fpga"):
        resource = f"pinproof.invalid/{named}"
        devices = [Device(f"{named}-{numa}", (numa,)) for numa in node.topology.numa_masks]
        register(node, *devices, resource=resource)
        container = with_devices(container, resource=resource)
    node.expect_hang()
    status = node.apply(guaranteed_of("a", [container]))
    if not node.hangs:
        promise_phase(node, "a", status, Phase.RUNNING)
        node.promise_equal("It has its CPU", "number of CPUs of a/c", 1, len(node.taken("a")))
