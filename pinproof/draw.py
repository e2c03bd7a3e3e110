"""``pinproof draw``: a machine as a picture, with the CPUs of each owner in its colour.

What belongs here: where owners come from (a state file, the command line). How they are drawn is
:mod:`topologies.drawing`'s; what a kubelet would give out is ``pinproof simulate``'s.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

import topologies
from conformance.describe import topology_text
from conformance.discovered import beside_of, topology_named
from conformance.subject import SubjectUsageError
from reference import NEWEST, Checkpoint, CheckpointError, CPUSet
from topologies import drawing

_RESERVED: Final = "reserved"
_SHARED_POOL: Final = "shared pool"
#: The state file of a node with 8192 CPUs, each a container's, is smaller.
_MOST_BYTES: Final = 8 << 20


def draw(
    machine: Annotated[str, typer.Argument(help="Name, archive, directory or described spec.")],
    svg: Annotated[Path | None, typer.Option(help="Write an SVG picture to this file.")] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="A node's cpu_manager_state: colour who holds which CPUs.", show_default=False
        ),
    ] = None,
    held: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OWNER=CPUS", help="Colour these too: pod/container=2,10. May be repeated."
        ),
    ] = None,
    reserved: Annotated[
        str, typer.Option(help="Reserved CPUs, in grey; they are in the shared pool, too.")
    ] = "",
    release: Annotated[
        str, typer.Option(help="The release that reads machine and state file.")
    ] = NEWEST,
) -> None:
    """Draw a machine: sockets, NUMA nodes, uncore caches, physical cores, threads, and who holds
    them."""
    shown = topologies.machine(machine)
    topology = topology_named(shown, release=release)
    owners = _owners(state, held or (), reserved, release)
    beside = beside_of(shown, release=release)
    title = f"{shown.name}: {topology_text(topology, beside)}"
    if svg is not None:
        picture = drawing.svg(topology.details, owners, title=title, beside=beside)
        try:
            svg.write_text(picture, encoding="utf-8")
        except OSError as error:
            raise SubjectUsageError(f"{svg}: {error.strerror}") from error
        typer.echo(svg)
        return
    console = Console(highlight=False)
    drawn = drawing.text(topology.details, owners, title=title, width=console.width, beside=beside)
    console.print(drawn)


def _owners(
    state: Path | None, held: Sequence[str], reserved: str, release: str
) -> dict[str, CPUSet]:
    """Owners in the order of the legend: as given, as in the state file, reserved, shared pool."""
    owners: dict[str, CPUSet] = {}
    for text in held:
        owner, equals, cpus = text.rpartition("=")
        if not equals or not owner:
            raise SubjectUsageError(f"--held {text!r}: it is OWNER=CPUS, as in web/app=2,10")
        owners[owner] = owners.get(owner, CPUSet()) | _cpus("--held", cpus)
    kept = _cpus("--reserved", reserved) if reserved else CPUSet()
    checkpoint = _checkpoint(state, release) if state is not None else None
    if checkpoint is not None:
        for pod, containers in sorted(checkpoint.entries.items()):
            owners |= {f"{pod}/{name}": cpus for name, cpus in sorted(containers.items())}
    if kept:
        owners[_RESERVED] = kept
    if checkpoint is not None:
        owners[_SHARED_POOL] = checkpoint.default_cpuset - kept
    return owners


def _cpus(option: str, text: str) -> CPUSet:
    try:
        return CPUSet.parse(text)
    except ValueError as error:
        raise SubjectUsageError(f"{option} {text!r}: {error}") from error


def _checkpoint(path: Path, release: str) -> Checkpoint:
    try:
        # A FIFO without a writer would block for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise SubjectUsageError(f"{path}: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise SubjectUsageError(f"{path}: larger than any state file")
    try:
        return Checkpoint.loads(data.decode("utf-8", "surrogateescape"), release=release)
    except (CheckpointError, ValueError) as error:
        raise SubjectUsageError(f"{path}: kubelet {release} cannot restore it: {error}") from error
