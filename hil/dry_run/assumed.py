"""How a node would look if its kubelet did as the model does. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hil.observation import ContainerObserved, Level, Observation, PodResources, ServiceState
from reference import CPUSet
from reference.steps import Pod
from reference.view import CFS, CFS_PERIOD, Phase, View

#: Above every pid that the kernel gives (``PID_MAX_LIMIT``).
NO_PID: Final = 4194305
_PHASES: Final = {
    Phase.REJECTED: "Failed",
    Phase.ENDED: "Failed",
    Phase.RUNNING: "Running",
    Phase.PENDING: "Pending",
}


@dataclass(slots=True)
class Assumed:
    """What a view does not have: ``online`` CPUs; ``starts`` and ``restarts`` of the kubelet's
    unit; ``spun``: an observation sees containers run; ``asked``: it has an answer of the
    pod-resources socket; ``reports_pool``: that answer gives containers without exclusive CPUs the
    pool's."""

    online: CPUSet
    starts: int = 0
    restarts: int = 0
    spun: bool = False
    asked: bool = False
    reports_pool: bool = False

    def look(self, view: View, pods: Iterable[Pod]) -> Observation:
        """The observation of a node whose view is ``view``; ``pods`` are all that may be in it."""
        known = {pod.name: pod for pod in pods}
        containers = [
            self._container(known[name], container, cpus, view.cfs.get(name, {}))
            for name, sets in view.cpusets.items()
            for container, cpus in sets.items()
            if name in known
        ]
        return Observation(
            online=self.online,
            service=self._service(view),
            state_file=view.state_file,
            containers=tuple(containers),
            pods=_listed(view, known) if view.running else None,
            log=_log(view.error),
            pod_resources=self._pod_resources(view, known) if self.asked else None,
        )

    def _pod_resources(self, view: View, known: Mapping[str, Pod]) -> PodResources:
        other = view.shared_pool if self.reports_pool else CPUSet()
        return PodResources(
            {
                ("", name): {
                    container: view.assignments.get(name, {}).get(container, other)
                    for container in containers
                }
                for name, containers in view.cpusets.items()
                if name in known
            }
        )

    def _service(self, view: View) -> ServiceState:
        gone = "activating" if view.error else "inactive"
        return ServiceState(
            active="active" if view.running else gone,
            sub="running" if view.running else "auto-restart",
            pid=NO_PID if view.running else 0,
            restarts=self.restarts,
            exit_status=view.exit_status,
            exit_code="exited" if view.error else "",
            invocation=f"start-{self.starts}",
        )

    def _container(
        self, pod: Pod, name: str, cpus: CPUSet | None, times: Mapping[str, CFS]
    ) -> ContainerObserved:
        effective = (cpus or self.online) & self.online or self.online
        cfs = times.get(name)
        quota, period = (cfs.quota, cfs.period) if cfs is not None else (None, CFS_PERIOD)
        return ContainerObserved(
            id=f"{pod.name}-{name}",
            pid=NO_PID,
            uid=pod.uid,
            name=name,
            levels=(
                Level(f"/kubepods/pod{pod.uid}/{name}", cpus, effective, quota, period),
                Level(f"/kubepods/pod{pod.uid}", CPUSet(), self.online, _quota_of_all(times)),
                Level("/", None, self.online),
            ),
            tasks={NO_PID: effective},
            ran_on=CPUSet([min(effective)]) if self.spun else CPUSet(),
            pod=pod.name,
        )


def _quota_of_all(times: Mapping[str, CFS]) -> int | None:
    """The quota of a pod's cgroup: the sum of its containers', ``None`` where one has none."""
    quotas = [one.quota for one in times.values()]
    return None if None in quotas or not quotas else sum(filter(None, quotas))


def _listed(view: View, known: Mapping[str, Pod]) -> str:
    items: list[dict[str, Any]] = [
        {
            "metadata": {"uid": known[name].uid, "name": name},
            "status": {
                "phase": _PHASES[seen.phase],
                "reason": seen.reason,
                "message": seen.message,
                "qosClass": seen.qos,
            },
        }
        for name, seen in view.pods.items()
        if name in known
    ]
    return json.dumps({"items": items})


def _log(error: str) -> str:
    """A kubelet's last line, as klog writes it."""
    if not error:
        return ""
    run = "failed to run Kubelet: "
    whole = error if error.startswith(run) else f"start cpu manager error: {error}"
    escaped = whole.replace("\\", "\\\\").replace('"', '\\"')
    return f'E0101 00:00:00.000000       1 run.go:72] "command failed" err="{escaped}"'
