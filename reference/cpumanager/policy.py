"""What a CPU manager asks of its policy (``policy.go``)."""

from __future__ import annotations

from typing import Protocol

from reference.cpumanager.state.state_mem import State
from reference.pods.pod import Container, Pod
from reference.topologymanager.hint import Hint


class Policy(Protocol):
    """What a CPU manager asks of its policy."""

    name: str

    #: Whether a container that holds CPUs already can be refused for lack of them.
    can_refuse_holders: bool

    def start(self, state: State) -> None:
        """Judge the restored state, and fill a fresh one. Raises :class:`StateError`."""

    def hints(self, state: State, pod: Pod, container: Container) -> list[Hint] | None:
        """Where a container's CPUs could be; ``None``: no preference, empty: nowhere."""

    def pod_hints(self, state: State, pod: Pod) -> list[Hint] | None:
        """The same for a whole pod."""

    def allocate(
        self, state: State, pod: Pod, container: Container, hint: Hint | None = None
    ) -> None:
        """Give a container that is being admitted its CPUs, first from the NUMA nodes of ``hint``
        (``None``: from any). Raises :class:`AllocationError`."""

    def allocate_pod(self, state: State, pod: Pod, hint: Hint | None = None) -> None:
        """The same for a whole pod with pod-level resources. Raises :class:`AllocationError`."""

    def remove_container(self, state: State, uid: str, container: str) -> None:
        """Take a container's CPUs back; an unknown one has none."""
