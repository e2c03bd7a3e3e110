"""A page for each machine of the catalogue: its picture, its source, what was recorded on it."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.discovered import topology_of
from conformance.recording import recorded_releases, shipped
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
    lines = [
        f"# {machine.name}",
        "",
        drawn,
        "",
        f"Source: {machine.source or 'not said'}.",
        "",
        f"Digest: `{machine.digest}`",
        "",
        "| release | scenarios recorded here |",
        "| --- | --- |",
        *(f"| {release} | {kept} |" for release, kept in _recorded(machine)),
    ]
    yield f"machines/{machine.name}.md", "\n".join(lines) + "\n"


def _recorded(machine: Machine) -> Iterator[tuple[str, int]]:
    for release in recorded_releases():
        recording = shipped(release)
        cases = recording.cases if recording else {}
        yield release, sum(digest == machine.digest for _, digest in cases)


def index(names: list[str]) -> str:
    """The list of the machines' pages."""
    lines = ["# Machines of the catalogue", "", *(f"- [{name}]({name}.md)" for name in names)]
    return "\n".join(lines) + "\n"
