"""The model as a subject: the reference itself, or a miniature."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from conformance.discovered import info_of
from conformance.kept_files import STATE
from conformance.subject import (
    OF_REAL_NODES,
    Capability,
    NodeUnderTest,
    SubjectInfo,
    SubjectLostError,
    SubjectUsageError,
)
from reference import NEWEST, IllegalStep, Node, NotModelled
from reference.kubelet.container_manager import models_pod_cgroups
from reference.steps import KubeletConfig, Step
from reference.view import View
from topologies import Machine

#: Makes a node of the model; that of a miniature makes one with a fault.
NodeMaker = Callable[[Callable[[str], Mapping[str, str]], str, KubeletConfig, str], Node]


def right_node(
    trees: Callable[[str], Mapping[str, str]], machine: str, config: KubeletConfig, release: str
) -> Node:
    return Node(trees, machine, config, release=release, discovering=info_of)


class ModelNode:
    """A node of the model. Its view is always settled, so there are no waits."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def do(self, step: Step) -> None:
        """Do the step. Raises :class:`SubjectLostError` for one that the model refuses."""
        try:
            self._node.do(step)
        except (IllegalStep, NotModelled) as error:
            raise SubjectLostError(f"the model cannot take this step: {error}") from error

    def hand_over(self, make: NodeMaker, release: str) -> None:
        """Continue with the kubelet that ``make`` makes. Raises :class:`SubjectLostError` if a
        kubelet runs, or if the model does not know."""
        try:
            self._node = self._node.handed_over(
                lambda trees, machine, config: make(trees, machine, config, release)
            )
        except (IllegalStep, NotModelled) as error:
            raise SubjectLostError(f"the model cannot go on: {error}") from error

    def view(self) -> View:
        return self._node.view()

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        """The view, which does not change without a step."""
        return self._node.view()

    def evidence(self) -> str:
        """The model keeps no log."""
        return ""

    def close(self) -> None:
        """Nothing to close."""


class ReferenceSubject:
    """The model of one release, or a variant of it. ``capabilities`` are those of the newest
    release; an instance has what the model of its own release can show."""

    capabilities = frozenset(Capability) - OF_REAL_NODES

    def __init__(
        self, name: str = "reference", *, release: str = NEWEST, make: NodeMaker = right_node
    ) -> None:
        self.info = SubjectInfo(name=name, release=release)
        if not models_pod_cgroups(release):
            self.capabilities -= {Capability.POD_CGROUP}
        self._make = make

    def of(self, release: str) -> ReferenceSubject:
        """The same subject of another release, which may have overrides."""
        return ReferenceSubject(self.info.name, release=release, make=self._make)

    def node(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> ModelNode:
        node = self._make(lambda name: machines(name).tree, machine.name, config, self.info.release)
        return ModelNode(node)

    def take_over(self, node: NodeUnderTest) -> None:
        if not isinstance(node, ModelNode):
            raise SubjectUsageError(f"{self.info.name} continues only on nodes of the model")
        node.hand_over(self._make, self.info.release)

    def kept_files(self, node: NodeUnderTest) -> dict[str, str]:
        """See :class:`conformance.subject.TakesOver`. The model has only the CPU manager's file."""
        text = node.view().state_file
        return {} if text is None else {STATE: text}

    def close(self) -> None:
        """Nothing to close."""
