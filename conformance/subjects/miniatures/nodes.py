"""Nodes that are wrong in one way each: what a kubelet remembers over a start or a boot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from reference import Checkpoint, Node
from reference.cpumanager.metrics import ADMISSION_MS
from reference.errors import UNALIGNED
from reference.kubelet.admission import rejections
from reference.kubelet.kubelet import Kubelet
from reference.kubelet.pod_resources import ASKED, FAILED_GET
from reference.kubelet.preemption import pods_to_preempt
from reference.pods.pod import Pod
from reference.pods.qos import GUARANTEED, pod_milli_cpus, qos_class
from reference.steps import (
    Apply,
    AskAllocatable,
    AskMetrics,
    AskPodResources,
    Configure,
    Kind,
    KubeletConfig,
    Reboot,
    RemoveState,
    Resize,
    Start,
    Step,
    WriteState,
)
from reference.view import HeldDevice, Phase


class Reader(Node):
    """A node whose kubelet acts on another configuration than it is given."""

    reading: Callable[[KubeletConfig], KubeletConfig]

    def do(self, step: Step) -> None:
        """Read each configuration that comes later, too."""
        super().do(Configure(self.reading(step.config)) if isinstance(step, Configure) else step)


class GetsNoSidecars(Reader):
    """Reports the sidecars of a pod where it lists all pods, and not where it is asked for one."""

    def do(self, step: Step) -> None:
        super().do(step)
        answers = self._told
        if isinstance(step, AskPodResources) and answers.got_pod:
            pod = self._manifests[step.pod]
            apps = {one.name for one in pod.containers if one.kind is not Kind.SIDECAR}
            got = {name: cpus for name, cpus in answers.got_pod.items() if name in apps}
            self._told = replace(answers, got_pod=got)


class ReportsNodeZero(Reader):
    """Reports a device that names no NUMA node as one of NUMA node 0."""

    def do(self, step: Step) -> None:
        super().do(step)
        answers = self._told
        if isinstance(step, AskPodResources) and answers.devices:
            devices = {
                pod: {name: frozenset(map(_of_node_zero, held)) for name, held in named.items()}
                for pod, named in answers.devices.items()
            }
            self._told = replace(answers, devices=devices)


def _of_node_zero(device: HeldDevice) -> HeldDevice:
    return device if device.numa_nodes else replace(device, numa_nodes=(0,))


class CountsAllocatableTwice(Reader):
    """Counts a call of GetAllocatableResources twice in the total of all calls."""

    def do(self, step: Step) -> None:
        super().do(step)
        if isinstance(step, AskAllocatable):
            assert self._kubelet is not None
            self._kubelet.count(ASKED)


class CountsNoFailedGet(Reader):
    """Counts a call of Get that is answered with an error as any other."""

    def do(self, step: Step) -> None:
        super().do(step)
        if isinstance(step, AskPodResources):
            assert self._kubelet is not None
            self._kubelet._counted.pop(FAILED_GET, None)


class TimesAdmissionsInSeconds(Reader):
    """Adds up in seconds how long the Topology Manager takes to admit pods."""

    def do(self, step: Step) -> None:
        super().do(step)
        if isinstance(step, AskMetrics):
            counted = dict(self._told.metrics or {})
            counted[ADMISSION_MS] = counted.get(ADMISSION_MS, 0) // 1000
            self._told = replace(self._told, metrics=counted)


class NamesNoAlignmentRefusals(Reader):
    """Counts pods that the Topology Manager refuses as refused for another reason."""

    def do(self, step: Step) -> None:
        super().do(step)
        if isinstance(step, AskMetrics):
            named, other = rejections(UNALIGNED), rejections("another")
            counted = {
                other if name == named else name: count
                for name, count in (self._told.metrics or {}).items()
            }
            self._told = replace(self._told, metrics=counted)


class AdmitsTheYoungestFirst(Reader):
    """At a start, admits the pod first that was created last."""

    def do(self, step: Step) -> None:
        if isinstance(step, Start):
            self._manifests = dict(reversed(self._manifests.items()))
        super().do(step)
        if isinstance(step, Start):
            self._manifests = dict(reversed(self._manifests.items()))


class AdmitsTheEndedAgain(Reader):
    """At a start, admits the pods again that the API server shows as ended."""

    def do(self, step: Step) -> None:
        if isinstance(step, Start):
            over = self._in_cluster._over
            self._in_cluster._over = {
                name: pod for name, pod in over.items() if pod.phase is not Phase.ENDED
            }
        super().do(step)


class PutsNoPodOut(Reader):
    """Refuses a critical pod for which requests leave no room, as it refuses any other."""

    def do(self, step: Step) -> None:
        if isinstance(step, Apply):
            step = replace(step, pod=replace(step.pod, priority=0))
        super().do(step)


class _OfAnotherKubelet(Reader):
    """A node with another kind of kubelet."""

    kubelet: type[Kubelet]

    def do(self, step: Step) -> None:
        if self._kubelet is not None:
            self._kubelet.__class__ = self.kubelet
        super().do(step)


def _of_guaranteed(pods: Sequence[Pod], needed: Mapping[str, int], release: str) -> list[Pod]:
    guaranteed = [pod for pod in pods if qos_class(pod) == GUARANTEED]
    return pods_to_preempt(guaranteed or pods, needed, release)


def _smallest(pods: Sequence[Pod], needed: Mapping[str, int], release: str) -> list[Pod]:
    if not pods:
        return pods_to_preempt(pods, needed, release)
    by_size, count = sorted(pods, key=pod_milli_cpus), 1
    while sum(map(pod_milli_cpus, by_size[:count])) < needed["cpu"] and count < len(pods):
        count += 1
    return by_size[:count]


class _OfGuaranteed(Kubelet):
    pods_to_preempt = staticmethod(_of_guaranteed)


class _Smallest(Kubelet):
    pods_to_preempt = staticmethod(_smallest)


class _Overlooking(Kubelet):
    def _weighed_devices(self, pod: Pod) -> tuple[Mapping[str, int], Mapping[str, int]]:
        return super()._weighed_devices(_without_huge_pages(pod))


def _without_huge_pages(pod: Pod) -> Pod:
    """The pod, whose containers request no huge pages."""
    return replace(pod, containers=tuple(replace(one, huge_pages=()) for one in pod.containers))


class OverlooksHugePagesOfTheNode(_OfAnotherKubelet):
    """Admits a pod whatever huge pages it requests of the node."""

    kubelet = _Overlooking


class PutsTheGuaranteedOut(_OfAnotherKubelet):
    """Puts out Guaranteed pods for a critical one where there are any."""

    kubelet = _OfGuaranteed


class PutsTheSmallestOut(_OfAnotherKubelet):
    """Puts out the smallest pods for a critical one, one after the other, until it fits."""

    kubelet = _Smallest


class PutsOutForCPUs(Reader):
    """Puts out every other pod for a critical one that needs exclusive CPUs."""

    def do(self, step: Step) -> None:
        kubelet = self._kubelet
        pod = step.pod if isinstance(step, Apply) and step.pod.critical else None
        if pod is not None and kubelet is not None and qos_class(pod) == GUARANTEED:
            for other in [*kubelet._admitted.values()]:
                kubelet._preempt(other)
            kubelet.settle()
        super().do(step)


class ForgetsAllocations(Reader):
    """At a start, admits pods with the size requested last, even if that resize was refused."""

    def do(self, step: Step) -> None:
        """It keeps no checkpoint of what it has allocated."""
        if isinstance(step, Start):
            self._manifests.update(self._in_cluster.wanted)
        super().do(step)


class KeepsRefusedResizes(Reader):
    """Goes on refusing a resize after the pod has asked for its old size again."""

    def do(self, step: Step) -> None:
        refused = dict(self._in_cluster._why)
        super().do(step)
        if isinstance(step, Resize):
            self._in_cluster._why = refused | self._in_cluster._why


class CountsWaitingResizes(Reader):
    """Counts another pod with the size that it waits for when a pod is admitted."""

    def do(self, step: Step) -> None:
        if isinstance(step, Apply) and self._kubelet is not None:
            granted = dict(self._kubelet._admitted)
            self._kubelet._admitted.update(self._in_cluster.wanted)
            super().do(step)
            mine = self._kubelet._admitted
            mine.update({name: pod for name, pod in granted.items() if name in mine})
        else:
            super().do(step)


class ForgetsOverABoot(Reader):
    """Removes its state file when it starts for the first time after a boot of the machine."""

    _booted = False

    def do(self, step: Step) -> None:
        """It takes the containers of before for gone, and their CPUs for free."""
        if isinstance(step, Start) and self._booted:
            super().do(RemoveState())
        self._booted = isinstance(step, Reboot) or (self._booted and not isinstance(step, Start))
        super().do(step)


class TakesOverOneContainer(Reader):
    """Reads one container of each pod from a state file that an earlier release has written."""

    def do(self, step: Step) -> None:
        """The file is replaced by what is read of it."""
        if isinstance(step, WriteState):
            found = Checkpoint.loads(step.text, release=self._release)
            last = {uid: dict([*named.items()][-1:]) for uid, named in found.entries.items()}
            read = replace(found, entries=last)
            step = WriteState(read.dumps(release=self._release))
        super().do(step)


class ForgetsWhatHasEnded(Reader):
    """At a start, takes back the CPUs of a container that does not run and is to run again."""

    def do(self, step: Step) -> None:
        """It is created on the shared pool."""
        ended = [
            (uid, name)
            for uid in self._runtime.uids()
            for name, box in self._runtime.of(uid).items()
            if box.owed
        ]
        super().do(step)
        kubelet = self._kubelet
        if isinstance(step, Start) and kubelet is not None and ended:
            for uid, name in ended:
                manager = kubelet.cpu_manager
                manager.policy.remove_container(manager.state, uid, name)
            kubelet.settle()
            self._save()


class ForgetsMemoryOverABoot(Reader):
    """Removes the file of its memory manager at a boot of the machine."""

    def do(self, step: Step) -> None:
        """So it starts, whatever memory the machine has by then."""
        if isinstance(step, Reboot):
            self.memory_state = None
        super().do(step)


class ForgetsMemoryOfAnotherPolicy(Reader):
    """Removes the file of its memory manager when the manager's policy changes."""

    def do(self, step: Step) -> None:
        """So it starts under any policy."""
        if isinstance(step, Configure):
            other = step.config.memory_manager_policy != self._config.memory_manager_policy
            self.memory_state = None if other else self.memory_state
        super().do(step)


class FreesWhatStops(Reader):
    """Takes a pod for gone as soon as it is deleted, though its containers still run."""

    _active_while_stopping = staticmethod(lambda config: False)


class KeepsWhatStops(Reader):
    """Counts a static pod as active until its containers have ended."""

    _active_while_stopping = staticmethod(lambda config: True)
