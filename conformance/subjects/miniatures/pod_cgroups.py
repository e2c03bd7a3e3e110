"""Nodes that are wrong about the processor time of pods and containers, in one way each."""

from __future__ import annotations

from dataclasses import replace

from conformance.subjects.miniatures.nodes import Reader
from reference.cpuset import CPUSet
from reference.kubelet.cpu_quota import (
    burstable_weight,
    cfs_shares,
    cpu_weight,
    pod_cfs,
    sandbox_quota,
    shares_of,
)
from reference.kubelet.startup import allocatable
from reference.pods.pod import Container, Kind, Pod
from reference.pods.pod_level_resources import has_pod_level_resources
from reference.releases import AnyRelease
from reference.steps import Resize, Start, Step
from reference.view import CFS, CFS_PERIOD, ReservedCgroup


class _MakesCgroups(Reader):
    """Makes the cgroup of each pod as if the pod were another one."""

    def do(self, step: Step) -> None:
        before = set(self._runtime.pod_cgroups)
        super().do(step)
        for pod in self._manifests.values():
            cgroup = self._runtime.pod_cgroups.get(pod.uid)
            if cgroup and cgroup.cfs and (pod.uid not in before or isinstance(step, Resize)):
                wrong = cgroup._replace(cfs=self.made(pod, cgroup.cfs))
                self._runtime.pod_cgroups[pod.uid] = wrong

    def made(self, pod: Pod, cfs: CFS) -> CFS:
        """The CFS settings of its cgroup; ``cfs`` would be right."""
        return self.of(self.taken_for(pod))

    def taken_for(self, pod: Pod) -> Pod:
        """The pod as which its cgroup is made."""
        return pod

    def of(self, pod: Pod, *, exclusive: bool = False, release: AnyRelease = "") -> CFS:
        """The CFS settings of a pod, by the node's release or another one."""
        gates, period = self._config.feature_gates, self._config.cpu_cfs_quota_period
        like = release or self._release
        return pod_cfs(pod, exclusive=exclusive, feature_gates=gates, period=period, release=like)


class BringsQuotasBack(_MakesCgroups):
    """Gives the cgroup of a pod the quota of its limits where a resize starts a container again,
    whether it has exclusive CPUs or not."""

    def do(self, step: Step) -> None:
        Reader.do(self, step)
        if isinstance(step, Resize) and any(one.resize_restarts for one in step.pod.containers):
            cgroups, uid = self._runtime.pod_cgroups, step.pod.uid
            cgroups[uid] = cgroups[uid]._replace(cfs=self.of(step.pod))


class SumsTheLimitsThereAre(_MakesCgroups):
    """Gives the cgroup of a pod the quota of the limits that there are, though one container has
    none."""

    def taken_for(self, pod: Pod) -> Pod:
        kept = tuple(one for one in pod.containers if one.cpu_limit)
        return replace(pod, containers=kept or pod.containers)

    def made(self, pod: Pod, cfs: CFS) -> CFS:
        return replace(cfs, quota=super().made(pod, cfs).quota)


class SizesByTheFirstContainer(_MakesCgroups):
    """Gives the cgroup of a pod what its first app container asks for."""

    def taken_for(self, pod: Pod) -> Pod:
        first = next(one for one in pod.containers if one.kind is Kind.APP)
        return replace(pod, containers=(first,))


class SizesWithoutInit(_MakesCgroups):
    """Gives the cgroup of a pod what its app containers ask for."""

    def taken_for(self, pod: Pod) -> Pod:
        apps = tuple(one for one in pod.containers if one.kind is Kind.APP)
        return replace(pod, containers=apps)


class SizesByContainersAlone(_MakesCgroups):
    """Gives the cgroup of a pod with pod-level resources what its containers ask for."""

    def taken_for(self, pod: Pod) -> Pod:
        return replace(pod, resources=None)


class KeepsQuotasOfWholePods(_MakesCgroups):
    """Gives each pod with pod-level resources a quota, though all of its containers are
    exclusive."""

    def made(self, pod: Pod, cfs: CFS) -> CFS:
        return self.of(pod) if has_pod_level_resources(pod) else cfs


class LiftsQuotasOfParts(_MakesCgroups):
    """Lifts the quota of a pod with pod-level resources for one exclusive container."""

    def made(self, pod: Pod, cfs: CFS) -> CFS:
        some = any(self._kubelet_isolates(pod, one) for one in pod.containers)
        return self.of(pod, exclusive=True) if some else cfs

    def _kubelet_isolates(self, pod: Pod, container: Container) -> bool:
        assert self._kubelet is not None
        return self._kubelet._container_manager.cpu_manager.isolates(pod, container)


class LooksAtAppContainersAlone(LiftsQuotasOfParts):
    """Lifts the quota of a pod for exclusive CPUs of its app containers, and of no sidecar."""

    def made(self, pod: Pod, cfs: CFS) -> CFS:
        apps = [one for one in pod.containers if one.kind is Kind.APP]
        pinned = any(self._kubelet_isolates(pod, one) for one in apps)
        return self.of(pod, exclusive=pinned)


class SizesSandboxesByLimits(Reader):
    """Creates the sandbox of each pod with the quota of its limits, though it has exclusive
    CPUs."""

    def do(self, step: Step) -> None:
        super().do(step)
        gates, period = self._config.feature_gates, self._config.cpu_cfs_quota_period
        for pod in self._manifests.values():
            if pod.uid in self._runtime.sandboxes:
                self._runtime.sandboxes[pod.uid] = sandbox_quota(
                    pod,
                    exclusive=False,
                    feature_gates=gates,
                    period=period,
                    release=self._release,
                )


class TakesZeroForNone(Reader):
    """Gives a container that requests 0 CPUs the CFS shares of its limit."""

    def do(self, step: Step) -> None:
        super().do(step)
        for pod in self._manifests.values():
            for box in self._runtime.of(pod.uid).values():
                if box.cfs and box.spec.cpu_request == "0":
                    shares = cfs_shares(replace(box.spec, cpu_request=None))
                    box.cfs = replace(box.cfs, shares=shares)


class WeighsContainersOfPods(Reader):
    """Gives the cgroup of all Burstable pods the weight of what their containers request."""

    def do(self, step: Step) -> None:
        super().do(step)
        pods = (replace(one, resources=None) for one in self._manifests.values())
        self._runtime.burstable_weight = burstable_weight(pods)


class WeighsWithoutTheSystem(Reader):
    """Gives the cgroup of all pods the weight of what kubeReserved leaves, if that is set."""

    def do(self, step: Step) -> None:
        super().do(step)
        if isinstance(step, Start):
            config = self._config
            config = replace(config, system_reserved=None) if config.kube_reserved else config
            left = allocatable(self._info, config, self._release)
            self._runtime.pods_weight = cpu_weight(shares_of(left))


class WritesNoCpusetOfPods(Reader):
    """Leaves the cpuset of the cgroup of all pods empty."""

    def do(self, step: Step) -> None:
        super().do(step)
        self._runtime.pods_cpus = CPUSet()


class ConfinesThePods(Reader):
    """Writes the CPUs that are not reserved into the cgroup of all pods."""

    def do(self, step: Step) -> None:
        super().do(step)
        if self._kubelet is not None and self._kubelet.cpu_manager.allocatable_cpus:
            self._runtime.pods_cpus = self._kubelet.cpu_manager.allocatable_cpus


class _EnforcesReservations(Reader):
    """Writes something else into the cgroups of what is reserved."""

    def do(self, step: Step) -> None:
        super().do(step)
        if isinstance(step, Start) and self._kubelet is not None:
            written = self._runtime.reserved_cgroups
            written.update({name: self.written(one) for name, one in written.items()})

    def written(self, right: ReservedCgroup) -> ReservedCgroup:
        """What is written where this would be right."""
        raise NotImplementedError


class WeighsReservationsAlike(_EnforcesReservations):
    """Gives the cgroup of each reservation the weight of the largest one."""

    def written(self, right: ReservedCgroup) -> ReservedCgroup:
        most = max(one.weight for one in self._runtime.reserved_cgroups.values())
        return replace(right, weight=most)


class ConfinesTheReservations(_EnforcesReservations):
    """Writes the CPUs that are not reserved into the cgroups of what is reserved."""

    def written(self, right: ReservedCgroup) -> ReservedCgroup:
        assert self._kubelet is not None
        return replace(right, cpus=self._kubelet.cpu_manager.allocatable_cpus or right.cpus)


class WeighsTheMachine(Reader):
    """Gives the cgroup of all pods the weight of all CPUs of the machine."""

    def do(self, step: Step) -> None:
        super().do(step)
        self._runtime.pods_weight = cpu_weight(shares_of(1000 * self._info.num_cores))


class ReadsEachLimitAlone(_MakesCgroups):
    """Lifts the quota of a pod of which an init container after a sidecar has no limit."""

    def made(self, pod: Pod, cfs: CFS) -> CFS:
        return self.of(pod, release="1.37")


class ReadsLimitsOfSidecarsToo(_MakesCgroups):
    """Takes the limits of sidecars for those of the init containers after them."""

    def made(self, pod: Pod, cfs: CFS) -> CFS:
        return self.of(pod, release="1.36")


class LeavesCgroupsAtResizes(Reader):
    """Resizes containers, and leaves the cgroup of their pod as it was."""

    def do(self, step: Step) -> None:
        before = dict(self._runtime.pod_cgroups)
        super().do(step)
        if isinstance(step, Resize):
            self._runtime.pod_cgroups.update(before)


class ResizesToTheDefaultPeriod(Reader):
    """Gives the cgroup of a pod that is resized a quota of the default period."""

    def do(self, step: Step) -> None:
        super().do(step)
        if isinstance(step, Resize):
            cgroups, uid = self._runtime.pod_cgroups, step.pod.uid
            gates, release = self._config.feature_gates, self._release
            cfs = pod_cfs(
                step.pod, exclusive=False, feature_gates=gates, period=CFS_PERIOD, release=release
            )
            cgroups[uid] = cgroups[uid]._replace(cfs=cfs)


class LiftsQuotasAtStarts(Reader):
    """Takes the quotas of the cgroups of pods away when the kubelet starts."""

    def do(self, step: Step) -> None:
        super().do(step)
        if isinstance(step, Start):
            cgroups = self._runtime.pod_cgroups
            for uid, cgroup in cgroups.items():
                cgroups[uid] = cgroup._replace(cfs=cgroup.cfs and replace(cgroup.cfs, quota=None))
