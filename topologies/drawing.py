"""Pictures of a machine: who holds which CPU.

Both pictures nest the same boxes: sockets, NUMA nodes, uncore caches (where a NUMA node, or a
socket in one, has several), physical cores, CPUs. Where sockets share a NUMA node, the NUMA node
is the outer box. A CPU has its owner's colour and letters, so that no fact is in the colour alone.
A CPU that several pods hold has all of their colours.

``cpus`` maps each CPU to (NUMA node, socket, core, uncore cache); ``owners`` maps
``pod/container``, ``reserved`` and ``shared pool`` to CPUs. Reserved CPUs that are also in the
shared pool, as the kubelet keeps them, count as reserved. CPUs of an owner that the machine does
not have are named in the legend. ``highlight`` marks CPUs, such as the difference between two
pictures. ``beside`` is what the machine has and its CPU topology lacks: NUMA nodes without CPUs,
and CPUs that lie in no NUMA node; they are drawn below the rest. :func:`strips` shows who held
which CPUs over time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from topologies import boxes, picture, terminal
from topologies.boxes import Beside, Placed
from topologies.strips import Strip, strips

if TYPE_CHECKING:
    from rich.console import RenderableType


__all__ = ["Strip", "strips", "svg", "text"]


def svg(
    cpus: Placed,
    owners: Mapping[str, Iterable[int]] | None = None,
    *,
    title: str = "",
    highlight: Iterable[int] = (),
    beside: Beside | None = None,
) -> str:
    """A complete SVG document: it scales, has a background, and refers to no other file."""
    return picture.render(boxes.arrange(cpus, owners or {}, highlight, beside), title)


def text(
    cpus: Placed,
    owners: Mapping[str, Iterable[int]] | None = None,
    *,
    title: str = "",
    highlight: Iterable[int] = (),
    beside: Beside | None = None,
    width: int = 100,
) -> RenderableType:
    """The same for a terminal of ``width`` columns: something that rich prints."""
    return terminal.render(boxes.arrange(cpus, owners or {}, highlight, beside), title, width)
