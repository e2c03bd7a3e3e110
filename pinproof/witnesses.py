"""``pinproof witnesses``: which recordings of real kubelets judge the model."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import topologies
from conformance.record import applying
from conformance.recording import Recording, recorded_releases, shipped
from conformance.subject import SubjectUsageError
from pinproof.output import print_json
from pinproof.parameters import AsJson
from topologies import Machine


def witnesses(
    release: Annotated[str, typer.Argument(help="A minor (1.32), to see its machines.")] = "",
    as_json: AsJson = False,
) -> None:
    """Say for which releases and machines a recording of a real kubelet judges the subject
    reference. Everywhere else the promise in words judges it alone."""
    rows = _of_machines(release) if release else _of_releases()
    if as_json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in rows[0]:
        table.add_column(heading, no_wrap=True)
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console(highlight=False, soft_wrap=True).print(table)


def _of_releases() -> list[dict[str, str | int]]:
    rows: list[dict[str, str | int]] = []
    for release in recorded_releases():
        recording = _recording(release)
        rows.append(
            {
                "release": release,
                "kubelet": recording.header.version,
                "machines": len({digest for _, digest in recording.cases} & set(_machines())),
                "scenarios": len({scenario for scenario, _ in recording.cases}),
                "recorded": len(recording.cases),
            }
        )
    return rows


def _of_machines(release: str) -> list[dict[str, str | int]]:
    recording = _recording(release)
    return [
        {
            "machine": machine.name,
            "recorded": sum(at == digest for _, at in recording.cases),
            "apply": len(applying(machine, release)),
        }
        for digest, machine in _machines().items()
        if any(at == digest for _, at in recording.cases)
    ]


def _recording(release: str) -> Recording:
    found = shipped(release)
    if found is None:
        known = ", ".join(recorded_releases())
        raise SubjectUsageError(f"there is no recording of a kubelet {release}: there are {known}")
    return found


def _machines() -> dict[str, Machine]:
    found = (topologies.machine(name) for name in topologies.names())
    return {machine.digest: machine for machine in found}
