"""Steps and machines in words, as explanations and reports show them."""

from __future__ import annotations

from reference import CPUSet, CPUTopology
from reference.pods.qos import qos_class
from reference.steps import (
    SIGKILLED,
    Apply,
    AskAllocatable,
    AskMetrics,
    AskPodResources,
    AwaitCrashLoop,
    AwaitReconcile,
    Configure,
    Container,
    DaemonReload,
    Delete,
    FailUpdates,
    KillContainer,
    Kind,
    KubeletConfig,
    OfflineCPUs,
    OnlineCPUs,
    Pod,
    PodResources,
    Reboot,
    RemoveState,
    RestartPolicy,
    RestartRuntime,
    Spin,
    Start,
    Step,
    Stop,
    Tamper,
    TamperQuota,
    WriteState,
)
from topologies.boxes import Beside


def step_text(step: Step) -> str:
    """One step, as one line."""
    match step:
        case Start():
            return "start the kubelet"
        case Stop(kill=kill):
            return "kill the kubelet (SIGKILL)" if kill else "stop the kubelet (SIGTERM)"
        case Reboot(machine=machine):
            return f"reboot the machine as {machine}" if machine else "reboot the machine"
        case Configure(config=config):
            return f"configure the kubelet: {config_text(config)}"
        case Apply(pod=pod):
            return f"apply {pod_text(pod)}"
        case Delete(pod=name, force=force):
            return f"delete pod {name} by force" if force else f"delete pod {name}"
        case RemoveState():
            return "remove the state file"
        case WriteState(text=text):
            return f"write the state file: {_shortened(text)}"
        case Tamper(pod=pod, container=container, cpus=cpus):
            return f"set the cpuset of {pod}/{container} to {cpus} behind the kubelet's back"
        case AwaitReconcile():
            return "wait for a reconcile round"
        case _:
            return _step_of_a_node(step)


def _step_of_a_node(step: Step) -> str:
    """Steps that only a node with a kernel and a service manager of its own can take."""
    match step:
        case TamperQuota(pod=pod, container=container, quota=quota):
            return f"give {pod}/{container} a CFS quota of {quota} us behind the kubelet's back"
        case KillContainer(pod=pod, container=container, exit_code=code) if code != SIGKILLED:
            return f"let container {pod}/{container} exit with code {code}"
        case KillContainer(pod=pod, container=container):
            return f"kill container {pod}/{container} (SIGKILL)"
        case Spin():
            return "let every container spin, and watch where it runs"
        case AskPodResources(pod=""):
            return "ask the kubelet at its pod-resources socket"
        case AskPodResources(pod=pod):
            return f"ask the kubelet at its pod-resources socket for pod {pod}"
        case AskMetrics():
            return "ask the kubelet for its metrics"
        case AskAllocatable():
            return "ask the kubelet at its pod-resources socket which CPUs pods could have"
        case FailUpdates(times=times):
            return f"let the container runtime refuse the next {times} updates"
        case RestartRuntime():
            return "restart the container runtime"
        case DaemonReload():
            return "let systemd read its units again (daemon-reload)"
        case AwaitCrashLoop():
            return "wait until the kubelet has been started once more"
        case OfflineCPUs(cpus=cpus):
            return f"take CPUs {cpus} offline"
        case OnlineCPUs(cpus=cpus):
            return f"bring CPUs {cpus} online"
    raise AssertionError(step)


def _shortened(text: str, limit: int = 300) -> str:
    if not text:
        return "(empty)"
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def config_text(config: KubeletConfig) -> str:
    """A configuration as ``policy static, reservedSystemCPUs 0,4``."""
    parts = [f"policy {config.policy}"]
    if config.reserved_system_cpus is not None:
        parts.append(f"reservedSystemCPUs {config.reserved_system_cpus}")
    if config.system_reserved is not None:
        parts.append(f"systemReserved cpu {config.system_reserved}")
    if config.kube_reserved is not None:
        parts.append(f"kubeReserved cpu {config.kube_reserved}")
    parts += [f"option {key}={value}" for key, value in sorted(config.policy_options.items())]
    parts += _topology_manager_parts(config)
    parts += [f"gate {key}={value}" for key, value in sorted(config.feature_gates.items())]
    return ", ".join(parts)


def _topology_manager_parts(config: KubeletConfig) -> list[str]:
    parts = []
    if config.topology_manager_policy != "none":
        parts.append(f"Topology Manager {config.topology_manager_policy}")
    if config.topology_manager_scope != "container":
        parts.append(f"Topology Manager scope {config.topology_manager_scope}")
    options = sorted(config.topology_manager_policy_options.items())
    return parts + [f"Topology Manager option {key}={value}" for key, value in options]


def pod_text(pod: Pod) -> str:
    """A pod as ``Guaranteed pod a (init c1: 2 CPUs; c2: 500m)``."""
    inside = "; ".join(_container_text(container) for container in pod.containers)
    if pod.resources == PodResources():
        # Which class such a pod is of depends on the release.
        return f"pod {pod.name} (in all nothing named; {inside})"
    if pod.resources is not None:
        inside = f"in all {_cpu_text(pod.resources)}; {inside}"
    if pod.restart_policy is not RestartPolicy.ALWAYS:
        inside += f"; restart policy {pod.restart_policy.value}"
    return f"{qos_class(pod)} pod {pod.name} ({inside})"


def _container_text(container: Container) -> str:
    kind = "" if container.kind is Kind.APP else f"{container.kind.value} "
    codes = ", ".join(map(str, container.restarts_all_on))
    rule = f", restarts all on exit code {codes}" if codes else ""
    return f"{kind}{container.name}: {_cpu_text(container)}{rule}"


def _cpu_text(owner: Container | PodResources) -> str:
    request, limit = owner.cpu_request, owner.cpu_limit
    if request is None and limit is None:
        return "no cpu request"
    if request in (None, limit):
        return f"{limit} CPU" if request is not None else f"cpu limit {limit}"
    if limit is None:
        return f"cpu request {request}"
    return f"cpu request {request}, limit {limit}"


def topology_text(topology: CPUTopology, beside: Beside | None = None) -> str:
    """A machine's totals and its CPU list; ``beside`` is what its CPU topology lacks."""
    cpus = CPUSet(topology.details)
    more = beside.summary() if beside else []
    totals = (
        f"{_plural(topology.num_cpus, 'CPU')} ({cpus}), "
        f"{_plural(topology.num_cores, 'physical core')}, "
        f"{_plural(topology.num_numa_nodes, 'NUMA node')}, "
        f"{_plural(topology.num_sockets, 'socket')}"
    )
    return ", ".join([totals, *more])


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
