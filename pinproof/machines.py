"""``pinproof machines``: the lists of machines.

A line for each machine. On a terminal its reason is cut to the width, in a pipe it is whole. A
machine that cannot be used is listed with its error, and the others still are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.table import Table

import topologies
from conformance.describe import topology_text
from conformance.discovered import beside_of, topology_of
from pinproof.import_export import export
from pinproof.output import print_json
from pinproof.parameters import AsJson, argument, option, with_options
from reference import NEWEST, CPUTopology, DiscoveryError
from topologies import Machine, MachineError
from topologies.boxes import Beside
from topologies.errors import one_line
from topologies.spec import looks_like_spec

_TITLES: Final = ("CPUs", "cores", "NUMA", "sockets")
#: A longer name moves the rest of its own line to the right, not that of all lines.
_NAME_WIDTH: Final = 28
#: A reason that would be cut to less than this is left out.
_LEAST: Final = 8


@dataclass(frozen=True, slots=True)
class Asked:
    pattern: str = argument(
        "A name, a glob over names, a path, a spec, or a word to search for in names, sources and "
        "reasons.",
        "all",
    )
    as_json: AsJson = False
    long: bool = option(False, "Show all fields: kernel, kubelet, source, digest.", "--long")
    pairs: bool = option(False, "List machines before and after a change.", "--pairs")
    lint: bool = option(False, "Say where a machine contradicts itself.", "--lint")
    export: Path | None = option(
        None, "Write one machine to this folder or archive, for lstopo -i and lscpu --sysroot."
    )
    sysfs_overlay: bool = option(
        False, "With --export: the YAML file of dra-driver-cpu's setting sysfsOverlay."
    )


@with_options
def machines(asked: Asked) -> None:
    """List machines: a line for each, with its totals and why it is here."""
    if asked.pairs + asked.lint + asked.long + bool(asked.export) > 1:
        raise typer.BadParameter("--pairs, --lint, --long and --export exclude one another")
    if asked.sysfs_overlay and not asked.export:
        raise typer.BadParameter("--sysfs-overlay needs --export, the file to write")
    if asked.export:
        export(asked.pattern, asked.export, as_overlay=asked.sysfs_overlay)
    elif asked.pairs:
        _list_pairs(asked.pattern, as_json=asked.as_json)
    elif asked.lint:
        _list_findings(asked.pattern, as_json=asked.as_json)
    else:
        _list_machines(asked.pattern, as_json=asked.as_json, long=asked.long)


@dataclass(frozen=True, slots=True)
class _Listed:
    """A machine of the list, or the error of one that cannot be read."""

    name: str
    machine: Machine | None = None
    topology: CPUTopology | None = None
    beside: Beside = field(default_factory=Beside)
    error: str = ""

    @property
    def origin(self) -> str:
        """``described``, ``captured``, ``archive``, or ``broken`` for an error."""
        if self.machine is None:
            return "broken"
        word = self.machine.source.partition(" ")[0]
        return word if word in ("described", "captured") else "archive"

    @property
    def why(self) -> str:
        return self.error or (self.machine.why if self.machine else "")

    def totals(self) -> str:
        """The numbers of CPUs, cores, NUMA nodes and sockets in words."""
        return topology_text(self.topology, self.beside) if self.topology else self.error

    def counts(self) -> tuple[str, ...]:
        """The numbers for columns: ``2+1`` is two NUMA nodes with CPUs and one without."""
        if self.topology is None:
            return ("-",) * len(_TITLES)
        topology = self.topology
        nodes = str(topology.num_numa_nodes)
        if self.beside.nodes:
            nodes += f"+{len(self.beside.nodes)}"
        return str(topology.num_cpus), str(topology.num_cores), nodes, str(topology.num_sockets)


def _list_machines(pattern: str, *, as_json: bool, long: bool) -> None:
    """Print the machines that ``pattern`` matches. Stderr names those that cannot be used."""
    rows = [_listed(name, found) for name, found in _machines(pattern)]
    if as_json:
        print_json([_facts(row) for row in rows])
    elif long:
        typer.echo("\n\n".join(map(_paragraph, rows)))
    else:
        _print_lines(rows)


def _list_pairs(pattern: str, *, as_json: bool) -> None:
    """Print the pairs with a machine that ``pattern`` matches."""
    wanted = set(_names(pattern) or [topologies.machine(pattern).name])
    found = [pair for pair in topologies.pairs() if {pair.before, pair.after} & wanted]
    if as_json:
        facts = [
            {"before": pair.before, "after": pair.after, "change": pair.change.value}
            for pair in found
        ]
        print_json(facts)
        return
    table = Table("change", "before", "after", box=None, pad_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    for pair in found:
        table.add_row(pair.change.value, pair.before, pair.after)
    Console(highlight=False).print(table)


def _list_findings(pattern: str, *, as_json: bool) -> None:
    """Print where machines contradict themselves."""
    found = [
        (name, finding)
        for name, machine in _machines(pattern)
        if isinstance(machine, Machine)
        for finding in topologies.lint(machine.tree)
    ]
    if as_json:
        facts = [{"machine": name, "path": one.path, "message": one.message} for name, one in found]
        print_json(facts)
        return
    for name, finding in found:
        typer.echo(one_line(f"{name}: {finding}"))


# --- which machines --------------------------------------------------------------------------


def _names(pattern: str) -> list[str]:
    """The names that ``pattern`` matches; none for a spec, a path, and what does not exist."""
    names = topologies.names()
    if pattern == "all":
        return names
    if not pattern or pattern in names or looks_like_spec(pattern):
        return [pattern] if pattern in names else []
    return [name for name in names if fnmatchcase(name, pattern)] or topologies.search(pattern)


def _machines(pattern: str) -> Iterator[tuple[str, Machine | MachineError]]:
    """Machines by name, with the error in place of one that cannot be used. A machine that is asked
    for by its own name, spec or path raises its error."""
    names = _names(pattern)
    if names in ([], [pattern]):
        machine = topologies.machine(pattern)
        yield machine.name, machine
        return
    errors: list[MachineError] = []
    for name in names:
        try:
            yield name, topologies.machine(name)
        except MachineError as error:
            errors.append(error)
            yield name, error
    if errors:
        count = "1 machine" if len(errors) == 1 else f"{len(errors)} machines, the first of them"
        typer.echo(f"pinproof: cannot use {count}: {errors[0]}", err=True)


def _listed(name: str, found: Machine | MachineError) -> _Listed:
    if isinstance(found, MachineError):
        return _Listed(name, error=str(found))
    try:
        topology, beside = topology_of(found, release=NEWEST), beside_of(found, release=NEWEST)
        return _Listed(name, found, topology, beside)
    except DiscoveryError as error:
        return _Listed(name, found, error=f"the kubelet would not start: {error}")


# --- printing --------------------------------------------------------------------------------


def _facts(row: _Listed) -> dict[str, str]:
    if row.machine is None:
        return {"name": row.name, "error": row.error}
    machine = row.machine
    return {"name": row.name, "totals": row.totals(), "why": machine.why, "source": machine.source,
            "digest": machine.digest, **_said(row.name)}  # fmt: skip


def _said(name: str) -> dict[str, str]:
    """The kernel and the kubelet that the catalogue names."""
    if name not in topologies.entry_names():
        return {}
    entry = topologies.catalogue_entry(name)
    return {"kernel": entry.kernel, "kubelet": entry.kubelet} if entry.kernel else {}


def _paragraph(row: _Listed) -> str:
    facts = {key: value for key, value in _facts(row).items() if value and key != "name"}
    lines = [f"  {key + ':':<8} {one_line(value, 4000)}" for key, value in facts.items()]
    return "\n".join([one_line(row.name), *lines])


def _print_lines(rows: Iterable[_Listed]) -> None:
    console = Console(highlight=False)
    room = console.width if console.is_terminal else None
    rows = list(rows)
    width = min(_NAME_WIDTH, max(len(row.name) for row in rows))
    typer.echo(_line("machine", _TITLES, "from", "why", width, room))
    for row in rows:
        name, why = one_line(row.name), one_line(row.why, 4000)
        typer.echo(_line(name, row.counts(), row.origin, why, width, room))


def _line(
    name: str, counts: Iterable[str], origin: str, why: str, width: int, room: int | None
) -> str:
    """One line. The name is always whole; the reason is cut to the room that is left."""
    columns = "  ".join(
        count.rjust(len(title)) for count, title in zip(counts, _TITLES, strict=True)
    )
    head = f"{name:<{width}}  {columns}  {origin:<9}"
    left = len(why) if room is None else room - len(head) - 2
    if left < min(_LEAST, len(why)):
        return head.rstrip()
    shown = why if len(why) <= left else f"{why[: left - 1].rstrip()}…"
    return f"{head}  {shown}".rstrip()
