"""How a node gets its pods: as manifests in a folder on it, or through its cluster's API server.

What belongs here: one interface for both, so that code which drives a node need not know the way.
What never does: requests (:mod:`hil.pods.apiserver`), and waiting on the node
(:mod:`hil.session.scripts`).

A pod source returns two things: the pod as the node knows it (an API server gives it another uid,
and cgroups are named by that), and the changes to make on the node for it (none where a server does
it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from conformance.kubelets.uids import renamed
from hil.changes import Change, RemoveFile, WriteFile
from hil.pods.manifests import Image, file_name, text
from hil.shell import NodeUnfit
from reference.releases import AnyRelease
from reference.steps import KubeletConfig, Pod

if TYPE_CHECKING:
    from hil.pods.apiserver import ClusterPods

#: How long a pod source waits for a pod to run or to be rejected, in seconds.
_PATIENCE: Final = 120.0


class PodSource:
    """Brings pods to one node and removes them. In this class, only the node reports them, under
    the uids that they were stated with."""

    #: Whether its pods are static: critical to a kubelet, which evicts others for them, and known
    #: to the kubelet alone.
    static: bool
    #: The namespace of its pods in the cluster; ``""``: they are static.
    namespace: str = ""

    def create(self, pod: Pod) -> tuple[Pod, tuple[Change, ...]]:
        """The pod as the node knows it, and what to change there. Raises
        :class:`hil.shell.NodeError`."""
        raise NotImplementedError

    def delete(self, pod: Pod, *, force: bool) -> tuple[Change, ...]:
        """What to change there to remove a pod that :meth:`create` gave. By ``force``, or while the
        kubelet is down, the kubelet is not asked."""
        raise NotImplementedError

    def await_settled(self, pods: Sequence[Pod]) -> bool:
        """Wait, on the runner, until these pods run or were rejected; whether they do. Where only
        the node can tell, there is no wait."""
        return True

    def listed(self, own: str | None) -> str | None:
        """The list of the run's pods, as :func:`hil.pods.read_pods` takes it; ``own`` is what the
        kubelet said itself."""
        return own

    def all_pods(self, own: str | None) -> str | None:
        """The list of all pods on the node; ``None`` where there is none."""
        return own

    def as_stated(self, state_file: str | None, config: KubeletConfig) -> str | None:
        """The node's state file under the uids that pods were stated with, for the model."""
        return state_file

    def as_given(self, state_file: str, config: KubeletConfig) -> str:
        """A state file under the uids that pods have on the node."""
        return state_file

    def expect(self, release: AnyRelease) -> None:
        """From now on a kubelet of this release may write the state file, too."""

    def close(self) -> None:
        """Remove what is left of the run's pods. May be called twice."""


class StaticPods(PodSource):
    """Manifests in the folder that the kubelet watches. The node's guard undoes what is in it."""

    static = True

    def __init__(self, folder: str, image: Image) -> None:
        self._folder = folder.rstrip("/")
        self._image = image

    def _path(self, pod: Pod) -> str:
        return f"{self._folder}/{file_name(pod.name)}"

    def create(self, pod: Pod) -> tuple[Pod, tuple[Change, ...]]:
        return pod, (WriteFile(self._path(pod), text(pod, self._image).encode()),)

    def delete(self, pod: Pod, *, force: bool) -> tuple[Change, ...]:
        return (RemoveFile(self._path(pod)),)


class ServerPods(PodSource):
    """Pods through an API server. ``release`` is the kubelet's, whose state file is read; ``then``
    is called after :meth:`close`."""

    static = False

    def __init__(
        self,
        pods: ClusterPods,
        release: AnyRelease,
        *,
        then: Callable[[], None] = lambda: None,
        patience: float = _PATIENCE,
    ) -> None:
        self._pods = pods
        self.namespace = pods.namespace
        self._release = release
        self._also: list[AnyRelease] = []
        self._then = then
        self._patience = patience

    def create(self, pod: Pod) -> tuple[Pod, tuple[Change, ...]]:
        return self._pods.create(pod), ()

    def delete(self, pod: Pod, *, force: bool) -> tuple[Change, ...]:
        self._pods.delete(pod, force=force)
        return ()

    def await_settled(self, pods: Sequence[Pod]) -> bool:
        return self._pods.await_settled(*pods, seconds=self._patience)

    def listed(self, own: str | None) -> str | None:
        return self._pods.listed()

    def all_pods(self, own: str | None) -> str | None:
        try:
            return self._pods.on_node()
        except NodeUnfit:  # the right to list all pods may be missing
            return own

    def as_stated(self, state_file: str | None, config: KubeletConfig) -> str | None:
        stated = {given: own for own, given in self._pods.uids.items()}
        return state_file and self._renamed(state_file, stated, config)

    def as_given(self, state_file: str, config: KubeletConfig) -> str:
        return self._renamed(state_file, self._pods.uids, config)

    def _renamed(self, state_file: str, uids: Mapping[str, str], config: KubeletConfig) -> str:
        return renamed(
            state_file,
            uids,
            release=self._release,
            also=self._also,
            feature_gates=config.feature_gates,
        )

    def expect(self, release: AnyRelease) -> None:
        self._also.append(release)

    def close(self) -> None:
        try:
            self._pods.close()
        finally:
            self._then()
