"""From what was seen of a node to the view that a scenario judges. Pure."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from conformance.kubelets import klog
from conformance.kubelets.pod_resources import by_own_names
from hil.observation import ContainerObserved, Observation, PodResources, ServiceState
from hil.pods import NoList, PodStatus, read_pods
from reference import CPUSet
from reference.cpumanager.state.state_checkpoint import parse_leniently
from reference.steps import Kind, Pod
from reference.view import Enforced, Phase, PodView, View
from topologies.errors import one_line

_T = TypeVar("_T")
_ENDED: Final = ("Failed", "Succeeded")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a kubelet gave up, and its exit status (128 + the signal where one ended it)."""

    error: str
    exit_status: int | None


def refusal(look: Observation) -> Refusal:
    """Why the kubelet that this observation shows gave up, from its own last lines."""
    lines = look.log.splitlines()
    errors = [line for line in lines if klog.is_error(line)]
    code, status = look.ended or (look.service.exit_code, look.service.exit_status)
    if status is not None and code in ("killed", "dumped"):
        status += 128
    return Refusal(klog.gave_up_because(lines, errors), status)


def end_of(look: Observation) -> Refusal:
    """How a kubelet ended that had run. The signal comes first. The last error line may be old, so
    it is called only that."""
    found = refusal(look)
    parts = [_ended(look.service) if look.service.exit_code != "exited" else ""]
    parts += [f"its last error line: {found.error}" if found.error else ""]
    return replace(found, error="; ".join(filter(None, parts)) or "it ended by itself")


def another_hand(service: ServiceState, invocation: str) -> str:
    """What another program did to a kubelet that was left running as ``invocation``; ``""``:
    nothing.

    systemd calls a unit inactive that was stopped or ended with success, and failed or activating
    one that ended by itself. It counts each restart that it makes itself (``NRestarts``).
    """
    if service.active in ("inactive", "deactivating"):
        ended = _ended(service)
        seen = f"its unit is {service.active}{ended and f', {ended}'}"
        return f"the kubelet was stopped by another program: {seen}"
    if invocation and service.invocation != invocation and not service.restarts:
        return (
            "the kubelet was restarted by another program: its unit has a new invocation, and its "
            "service manager did not restart it"
        )
    return ""


#: Reasons for which a kubelet lets a container without an image wait.
_NO_IMAGE: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}
)


def without_image(look: Observation, pods: Collection[Pod]) -> str:
    """Which of the scenario's pods cannot run because the node cannot get its image, in words;
    ``""``: none. The kubelet has already assigned its CPUs, and no container shows them."""
    ours = {pod.uid: pod.name for pod in pods}
    for status in _listed(look):
        for container, reason in status.waits.items():
            if status.uid in ours and reason in _NO_IMAGE:
                return (
                    f"pod {ours[status.uid]} does not run: the image of its container "
                    f"{one_line(container)} cannot be pulled on the node ({reason}); --image names "
                    "one that can"
                )
    return ""


def _listed(look: Observation) -> list[PodStatus]:
    try:
        return read_pods(look.pods) if look.pods else []
    except NoList:
        return []


def _ended(service: ServiceState) -> str:
    """As ``it exited with status 1``, ``it was killed by SIGKILL``; ``""`` where nothing ended."""
    if service.exit_status is None:
        return ""
    if service.exit_code == "exited":
        return f"it exited with status {service.exit_status}"
    try:
        named = signal.Signals(service.exit_status).name
    except ValueError:
        named = f"signal {service.exit_status}"
    return f"it was killed by {named}"


def view_of(
    look: Observation, pods: Collection[Pod], *, running: bool, refused: Refusal | None = None
) -> View:
    """The view: ``pods`` are the scenario's; of several with one name the last one is shown.
    ``running`` is whether the scenario has the kubelet up (one in a crash loop is not)."""
    names = {pod.uid: pod.name for pod in pods}
    order = {uid: place for place, uid in enumerate(names)}
    shared, entries = parse_leniently(look.state_file)
    ours = sorted(
        (each for each in look.containers if each.uid in names),
        key=lambda each: order[each.uid],
    )
    assigned = sorted(entries.items(), key=lambda entry: order.get(entry[0], -1))
    return View(
        running=running,
        error="" if running or refused is None else refused.error,
        exit_status=None if running or refused is None else refused.exit_status,
        pods=_pods(look, pods) if running else {},
        assignments={names.get(uid, uid): containers for uid, containers in assigned},
        shared_pool=shared,
        state_file=look.state_file,
        cpusets=_by_pod(names, ours, lambda each: each.cpuset),
        enforced=_by_pod(
            names, ours, lambda each: Enforced(each.effective, each.allowed, each.ran_on)
        ),
        cfs=_by_pod(names, ours, lambda each: each.cfs),
        pod_cfs={names[each.uid]: cfs for each in ours if (cfs := each.pod_cfs) is not None},
    )


def cpus_by_pod(
    pod_resources: PodResources, called: Mapping[str, tuple[str, str]], pods: Collection[Pod]
) -> dict[str, dict[str, CPUSet]]:
    """What the kubelet reports of ``pods``, by their names. ``called``: by uid, namespace and name
    of each pod that was ever seen to run; a namespace that is not known (``""``) may be any."""
    names = {called[pod.uid]: pod.name for pod in pods if pod.uid in called}
    found = by_own_names(pod_resources.pods, names)
    return {
        pod: {one_line(name): cpus for name, cpus in containers.items()}
        for pod, containers in found.items()
    }


def _by_pod(
    names: Mapping[str, str],
    containers: Iterable[ContainerObserved],
    value: Callable[[ContainerObserved], _T],
) -> dict[str, dict[str, _T]]:
    found: dict[str, dict[str, _T]] = {}
    for one in containers:
        found.setdefault(names[one.uid], {})[one.name] = value(one)
    return found


def _pods(look: Observation, pods: Collection[Pod]) -> dict[str, PodView]:
    listed = {one.uid: one for one in _listed(look)}
    running = {(each.uid, each.name) for each in look.containers}
    return {pod.name: _pod(pod, listed.get(pod.uid), running) for pod in pods}


def _pod(pod: Pod, status: PodStatus | None, running: Collection[tuple[str, str]]) -> PodView:
    """The kubelet's own phase follows the runtime by up to a second, so a pod counts as running as
    soon as the runtime runs all of it. Where containers may end, the kubelet's phase counts as
    well. A pod that it refused has a reason, one that ended has none."""
    if status is None:
        return PodView(Phase.PENDING)
    if status.phase == "Failed" and status.reason:
        return PodView(Phase.REJECTED, status.reason, status.message, status.qos)
    if status.phase in _ENDED:
        return PodView(Phase.ENDED, qos=status.qos)
    wanted = [each.name for each in pod.containers if each.kind is not Kind.INIT]
    runs = all((pod.uid, name) in running for name in wanted)
    runs = runs or (pod.may_end and status.phase == "Running")
    return PodView(Phase.RUNNING if runs else Phase.PENDING, qos=status.qos)
