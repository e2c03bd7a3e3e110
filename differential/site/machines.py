"""A page for each machine of the catalogue: its picture, its source, what was recorded on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from conformance.discovered import topology_of
from conformance.recording import recorded_releases, shipped
from differential.markdown import page, table
from pinproof.picture import Picture
from reference import NEWEST, DiscoveryError
from topologies import Machine


def machine_files(machine: Machine) -> Iterator[tuple[str, str]]:
    """Path and text of a machine's page, and of its picture where a kubelet starts on it."""
    try:
        topology = topology_of(machine, release=NEWEST)
    except DiscoveryError as error:
        drawn = f"A kubelet of {NEWEST} does not start here: {error}."
    else:
        drawn = f"![{machine.name}]({machine.name}.svg)"
        yield f"machines/{machine.name}.svg", Picture.of(machine, topology, {}, NEWEST).svg()
    parts = [
        f"# {machine.name}",
        "One of the [machines of the catalogue](index.md).",
        drawn,
        f"Source: {machine.source or 'not said'}.",
        f"Digest: `{machine.digest}`",
        table(("release", "scenarios recorded here"), _recorded(machine)),
    ]
    yield f"machines/{machine.name}.md", page(parts)


def _recorded(machine: Machine) -> Iterator[tuple[str, str]]:
    for release in recorded_releases():
        recording = shipped(release)
        cases = recording.cases if recording else {}
        yield release, str(sum(digest == machine.digest for _, digest in cases))


def index(machines: Iterable[Machine]) -> str:
    """The list of the machines' pages."""
    rows = [(f"[{one.name}]({one.name}.md)", one.source or "not said") for one in machines]
    return page(["# Machines of the catalogue", table(("machine", "source"), rows)])
