"""Machines from and for other programs: ``pinproof capture FILE``, ``pinproof machines --export``,
and the older ``import`` and ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import topologies
from conformance.describe import topology_text
from conformance.discovered import beside_of, topology_of
from conformance.subject import SubjectUsageError
from pinproof.output import note
from reference import NEWEST, DiscoveryError
from topologies import Machine
from topologies.errors import one_line
from topologies.exporting import readable
from topologies.importing.printed import read_printed
from topologies.paths import CPUINFO
from topologies.reading import machine_name, read_tree, shortened

#: Findings past these are counted: a broken machine has thousands.
_SHOWN = 5


def import_(
    archive: Annotated[
        Path,
        typer.Argument(
            help="An archive of hwloc-gather-topology, a dump for lscpu, a folder, or what "
            "`lscpu -p`, `lscpu -e`, `lscpu -J -e` or `lstopo --of xml` print."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The archive to write (default: NAME.tar.xz here)."),
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace what is there.")] = False,
) -> None:
    """Make a machine of what another program captured, and say what had to be completed."""
    if not archive.exists():
        raise SubjectUsageError(f"{archive}: there is no such file or folder")
    name = machine_name(archive)
    left_out: list[str] = []
    printed = read_printed(archive)
    tree, notes = printed or (read_tree(archive, left_out=left_out), ())
    name = Path(name).stem if printed else name
    done = topologies.complete(tree, where=str(archive))
    for lacking in notes:
        note(str(lacking))
    if left_out:
        note(one_line(f"left out: {shortened(left_out)}: no permission to read it"))
    for completed in done.notes:
        note(str(completed))
    _print_findings(done.tree)
    note(_totals(Machine(name, done.tree)))
    target = output or Path(f"{name}.tar.xz")
    topologies.pack(done.tree, target, replace=force)
    typer.echo(target)


def _print_findings(tree: topologies.Tree) -> None:
    findings = topologies.lint(tree)
    for finding in findings[:_SHOWN]:
        note(one_line(f"odd: {finding}"))
    if len(findings) > _SHOWN:
        note(f"odd: and {len(findings) - _SHOWN} more; `pinproof machines FILE --lint` lists all")


def _totals(machine: Machine) -> str:
    try:
        topology, beside = topology_of(machine, release=NEWEST), beside_of(machine, release=NEWEST)
        return f"a kubelet finds {topology_text(topology, beside)}"
    except DiscoveryError as error:
        return f"a kubelet would not start: {error}"


def export(
    machine: Annotated[str, typer.Argument(help="Name, archive, directory or described spec.")],
    target: Annotated[
        Path, typer.Argument(help="A folder that is empty or not there, or an archive's name.")
    ],
    force: Annotated[bool, typer.Option(help="Replace an archive that is there.")] = False,
) -> None:
    """Write a machine for ``lstopo -i`` and ``lscpu --sysroot``."""
    loaded = topologies.machine(machine).tree
    tree = readable(loaded)
    if len(tree) > len(loaded):
        reason = f"{machine} has no {CPUINFO}, without which lstopo and lscpu read nothing"
        note(one_line(f"added a {CPUINFO} that numbers the CPUs: {reason}"))
    if topologies.is_archive_name(target):
        topologies.pack(tree, target, replace=force)
    else:
        topologies.write(tree, target)
    typer.echo(target)
