"""The model as a subject: what the suite says of the reference itself, and of its miniatures."""

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

#: Makes a node of the model; a miniature makes a wrong one.
NodeMaker = Callable[[Callable[[str], Mapping[str, str]], str, KubeletConfig, str], Node]


def right_node(
    trees: Callable[[str], Mapping[str, str]], machine: str, config: KubeletConfig, release: str
) -> Node:
    return Node(trees, machine, config, release=release, discovering=info_of)


class ModelNode:
    """A node of the model. Its view is always settled, so nothing is waited for."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def do(self, step: Step) -> None:
        """Carry the step out; a step that the model refuses is lost, not wrong."""
        try:
            self._node.do(step)
        except (IllegalStep, NotModelled) as error:
            raise SubjectLostError(f"the model cannot take this step: {error}") from error

    def hand_over(self, make: NodeMaker, release: str) -> None:
        """Go on with the kubelet that ``make`` makes. Raises :class:`SubjectLostError` while one
        runs, and where the model does not know."""
        try:
            self._node = self._node.handed_over(
                lambda trees, machine, config: make(trees, machine, config, release)
            )
        except (IllegalStep, NotModelled) as error:
            raise SubjectLostError(f"the model cannot go on: {error}") from error

    def view(self) -> View:
        return self._node.view()

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        """The settled view, satisfying or not: it would not change."""
        return self._node.view()

    def evidence(self) -> str:
        """The model keeps no log."""
        return ""

    def close(self) -> None:
        """Nothing to close."""


class ReferenceSubject:
    """The model of one release, or a variant of it. ``capabilities``: of the newest release, and of
    each that it is made of, what its model can show."""

    capabilities = frozenset(Capability) - OF_REAL_NODES

    def __init__(
        self, name: str = "reference", *, release: str = NEWEST, make: NodeMaker = right_node
    ) -> None:
        self.info = SubjectInfo(name=name, release=release)
        if not models_pod_cgroups(release):
            self.capabilities -= {Capability.POD_CGROUP}
        self._make = make

    def of(self, release: str) -> ReferenceSubject:
        """The same of another release, which may have overrides."""
        return ReferenceSubject(self.info.name, release=release, make=self._make)

    def node(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> ModelNode:
        made = self._make(lambda name: machines(name).tree, machine.name, config, self.info.release)
        return ModelNode(made)

    def take_over(self, node: NodeUnderTest) -> None:
        if not isinstance(node, ModelNode):
            raise SubjectUsageError(f"{self.info.name} continues only on nodes of the model")
        node.hand_over(self._make, self.info.release)

    def kept_files(self, node: NodeUnderTest) -> dict[str, str]:
        """See :class:`conformance.subject.TakesOver`. The model has the CPU manager's alone."""
        text = node.view().state_file
        return {} if text is None else {STATE: text}

    def close(self) -> None:
        """Nothing to close."""
