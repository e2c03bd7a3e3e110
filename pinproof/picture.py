"""A machine with the CPUs of each owner, for a terminal and as an SVG file.

What belongs here: the title, and where a picture is written. How it is drawn is
:mod:`topologies.drawing`'s; who holds which CPUs, the commands' that draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.describe import topology_text
from conformance.discovered import beside_of
from conformance.subject import SubjectUsageError
from reference import CPUSet, CPUTopology
from topologies import Machine, drawing
from topologies.boxes import Beside
from topologies.errors import one_line

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class Picture:
    """A machine as a kubelet finds it, and the CPUs of each owner."""

    title: str
    topology: CPUTopology
    beside: Beside
    owners: Mapping[str, CPUSet]

    @classmethod
    def of(
        cls, machine: Machine, topology: CPUTopology, owners: Mapping[str, CPUSet], release: str
    ) -> Picture:
        """The picture of a machine on which a kubelet of ``release`` finds ``topology``."""
        beside = beside_of(machine, release=release)
        return cls(f"{machine.name}: {topology_text(topology, beside)}", topology, beside, owners)

    def show(self, console: Console) -> None:
        console.print(
            drawing.text(
                self.topology.details,
                self.owners,
                title=self.title,
                width=console.width,
                beside=self.beside,
            )
        )

    def svg(self) -> str:
        return drawing.svg(self.topology.details, self.owners, title=self.title, beside=self.beside)

    def write(self, path: Path) -> None:
        """Write it as SVG; raises :class:`SubjectUsageError` where that cannot be."""
        try:
            path.write_text(self.svg(), encoding="utf-8")
        except OSError as error:
            raise SubjectUsageError(f"{one_line(str(path))}: {error.strerror}") from error
