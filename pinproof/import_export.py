"""Machines from and for other programs: ``pinproof capture FILE``, ``pinproof machines --export``,
and the older ``import`` and ``export``."""

from __future__ import annotations

import json
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
from topologies.cpulist import bits, format_list
from topologies.errors import one_line
from topologies.exporting import readable
from topologies.importing.printed import read_printed
from topologies.overlay import passed_over, refusal, sysfs_overlay
from topologies.packing import save
from topologies.paths import CPUINFO
from topologies.reading import machine_name, read_tree, shortened

#: How many findings are printed; the rest is counted, as a broken machine has thousands.
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
    as_overlay: Annotated[
        bool,
        typer.Option(
            "--sysfs-overlay", help="Write the YAML file of dra-driver-cpu's setting sysfsOverlay."
        ),
    ] = False,
) -> None:
    """Write a machine for ``lstopo -i`` and ``lscpu --sysroot``, or for dra-driver-cpu."""
    loaded = topologies.machine(machine).tree
    if as_overlay:
        _export_overlay(machine, loaded, target, force=force)
        return
    tree = readable(loaded)
    if len(tree) > len(loaded):
        reason = f"{machine} has no {CPUINFO}, without which lstopo and lscpu read nothing"
        note(one_line(f"added a {CPUINFO} that numbers the CPUs: {reason}"))
    if topologies.is_archive_name(target):
        topologies.pack(tree, target, replace=force)
    else:
        topologies.write(tree, target)
    typer.echo(target)


def _export_overlay(name: str, tree: topologies.Tree, target: Path, *, force: bool) -> None:
    """Write the file, and say where the driver sees less than a kubelet does."""
    texts = sysfs_overlay(tree)
    data = "".join(f"{json.dumps(path)}: {json.dumps(text)}\n" for path, text in texts.items())
    save(data.encode(), target, replace=force)
    if reason := refusal(tree):
        note(one_line(f"dra-driver-cpu does not start on {name}: {reason}"))
    if left_out := passed_over(tree):
        cpus = format_list(bits(left_out))
        lacking = "they have no socket, no core, no NUMA node or no caches"
        note(one_line(f"dra-driver-cpu leaves out CPUs {cpus} of {name}: {lacking}"))
    typer.echo(target)
