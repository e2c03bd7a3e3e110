"""The node that scenarios drive: a subject and an oracle, one step at a time."""

from __future__ import annotations

from conformance.lockstep.promises import Promises
from conformance.lockstep.steps import Steps
from reference import CPUSet
from reference.steps import AddEphemeral, KubeletConfig, Pod, Resize, Stop
from reference.view import Phase, PodView, View


class LockstepNode(Steps, Promises):
    """A node under test beside its oracle: what a scenario reads (:class:`Readings`), its steps,
    its promises, and the defects that it expects."""

    def boot_with(self, *pods: Pod, config: KubeletConfig | None = None) -> View:
        """Boot the node as :meth:`boot` does, and apply these pods, one after the other."""
        self.boot(config)
        for pod in pods:
            self.apply(pod)
        return self.view

    def restart(self, *, kill: bool = True) -> View:
        """Kill the kubelet, or stop it with SIGTERM, and start it again."""
        self.take(Stop(kill=kill))
        return self.start()

    def resize(self, pod: Pod) -> PodView:
        """Resize the pod with the name of ``pod`` to its resources; returns the pod's state. The
        node's pods come through an API server."""
        return self.take(Resize(pod)).pods.get(pod.name, PodView(Phase.PENDING))

    def add_ephemeral(self, pod: str, container: str) -> View:
        """Add an ephemeral container to a running pod that came through an API server."""
        return self.take(AddEphemeral(pod, container))

    def run(self, pod: Pod) -> PodView:
        """Apply a pod, and promise that it runs; returns the pod's state."""
        status = self.apply(pod)
        self.promise_equal("The pod runs", f"phase of pod {pod.name}", Phase.RUNNING, status.phase)
        return status

    def expect_lost(self, cpus: CPUSet) -> None:
        """Expect that neither a container nor the shared pool holds these CPUs from now on. It is a
        known defect, which breaks no invariant here."""
        self._lost = cpus

    def expect_broken(self, *rules: str) -> None:
        """Accept that these invariants are broken, as the scenario and the model say: by a known
        defect, or because the state file cannot be written."""
        self._comparison.known_broken.update(rules)

    def expect_as_modelled(self) -> None:
        """Accept that an invariant is broken if the model's own view breaks it, too: a subject of
        the release may break what the release breaks."""
        self._comparison.as_modelled = True

    def expect_hang(self) -> None:
        """Accept that the kubelet hangs from now on, if the model says that its release does: a
        known defect, which the scenario states. A kubelet that answers is accepted, too; the
        scenario's promises and the invariants judge its answers."""
        self._comparison.may_hang = True

    def evidence(self) -> str:
        """The subject's log lines that matter."""
        return self._node.evidence() if self._node is not None else ""

    def close(self) -> None:
        if self._node is not None:
            self._node.close()
