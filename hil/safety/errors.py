"""What can go wrong while a node is guarded, beside what :mod:`hil.shell` names.

NodeError
+-- NodeUnfit
|   +-- NodeBusy          another run holds the node (status 3)
|   +-- LeaseLost         the runner was silent too long; the node restored itself (status 3)
+-- NotRestored           the node is not as it was before (status 5)
"""

from __future__ import annotations

from collections.abc import Sequence

from hil.shell import NodeError, NodeUnfit


class NodeBusy(NodeUnfit):
    """Another run holds the node."""


class LeaseLost(NodeUnfit):
    """The lease ended while the run went on."""


class NotRestored(NodeError):
    """The node differs from how it was; ``differences`` has one line for each."""

    def __init__(self, node: str, differences: Sequence[str], *, manual: str = "") -> None:
        self.differences = tuple(differences)
        self.manual = manual
        first = "; ".join(self.differences[:3])
        more = f" and {len(self.differences) - 3} more" if len(self.differences) > 3 else ""
        super().__init__(
            f"{node} is not as it was before: {first}{more}",
            evidence="\n".join((*self.differences, *([manual] if manual else []))),
        )
