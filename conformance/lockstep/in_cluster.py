"""The steps on pods that come through an API server alone."""

from __future__ import annotations

from dataclasses import replace

from conformance.lockstep.steps import Steps
from reference.steps import AddEphemeral, Pod, Resize
from reference.view import Phase, PodView, View


class ClusterSteps(Steps):
    """The node was booted with ``api_server`` in its configuration."""

    def resize(self, pod: Pod) -> PodView:
        """Ask for the resources of ``pod`` in place of those that a pod of its name has; what
        became of it."""
        view = self._take(Resize(replace(pod, uid=self._pods[pod.name].uid)))
        return view.pods.get(pod.name, PodView(Phase.PENDING))

    def add_ephemeral(self, pod: str, container: str) -> View:
        """Add an ephemeral container to a running pod."""
        return self._take(AddEphemeral(pod, container))
