"""The containers of a node, as its runtime has them.

What belongs here: which containers there are, whether they run, and the cpuset each was given.
What never does: deciding any of it. Containers outlive the kubelet and not the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from reference.cpuset import CPUSet
from reference.steps import Container, Pod

__all__ = ["Box", "Runtime"]


@dataclass(slots=True)
class Box:
    """One container; ``cpuset`` is ``None`` while none was asked for."""

    spec: Container
    cpuset: CPUSet | None
    running: bool = True


class Runtime:
    """All containers, by pod uid, then name."""

    __slots__ = ("_boxes",)

    def __init__(self) -> None:
        self._boxes: dict[str, dict[str, Box]] = {}

    def copy(self) -> Runtime:
        """An independent copy."""
        twin = Runtime()
        twin._boxes = {
            uid: {name: replace(box) for name, box in boxes.items()}
            for uid, boxes in self._boxes.items()
        }
        return twin

    def of(self, uid: str) -> Mapping[str, Box]:
        """The containers of a pod, by name."""
        return self._boxes.get(uid, {})

    def uids(self) -> list[str]:
        """The pods that have containers."""
        return list(self._boxes)

    def create(self, pod: Pod, container: Container, cpuset: CPUSet) -> Box:
        """Create and start a container; the empty set asks for nothing."""
        box = Box(container, cpuset or None)
        self._boxes.setdefault(pod.uid, {})[container.name] = box
        return box

    def update(self, uid: str, container: str, cpuset: CPUSet) -> None:
        """Change the cpuset of a container."""
        self._boxes[uid][container].cpuset = cpuset

    def runs(self, uid: str, container: str) -> bool:
        """Whether there is such a container and it runs."""
        box = self.of(uid).get(container)
        return box is not None and box.running

    def remove_pod(self, uid: str) -> None:
        """Stop and remove the containers of a pod."""
        self._boxes.pop(uid, None)

    def clear(self) -> None:
        """Lose everything, as a reboot does."""
        self._boxes.clear()

    def running(self) -> dict[str, dict[str, CPUSet | None]]:
        """The cpuset of every running container, by pod uid, then name."""
        shown = {
            uid: {name: box.cpuset for name, box in boxes.items() if box.running}
            for uid, boxes in self._boxes.items()
        }
        return {uid: boxes for uid, boxes in shown.items() if boxes}
