"""``pinproof build``: what is built from the Go module k8s.io/kubernetes, and kept.

``pinproof kubelet``, ``driver`` and ``apiserver`` are the older names of the same commands.
"""

from __future__ import annotations

from typing import Final

import typer

from conformance.kubelets import apiservers, builder
from conformance.subjects.exec import drivers
from pinproof.apiservers import build as build_apiserver
from pinproof.built import print_all_built
from pinproof.drivers import build as build_driver
from pinproof.kubelets import build as build_kubelet
from pinproof.output import AsJson

app = typer.Typer(
    help="Build and list kubelets, drivers (the CPU manager of a release as the subject exec:PATH) "
    "and API servers.",
    no_args_is_help=True,
)

_BUILDS: Final = {
    "kubelet": (build_kubelet, "pinproof build kubelet 1.36"),
    "driver": (build_driver, "pinproof build driver 1.36 --replace ~/src/kubernetes"),
    "apiserver": (build_apiserver, "pinproof build apiserver 1.36"),
}
for _name, (_build, _example) in _BUILDS.items():
    app.command(_name, epilog=f"Example: {_example}")(_build)


@app.command("list", epilog="Example: pinproof build list --json")
def list_(as_json: AsJson = False) -> None:
    """List what is built already."""
    found = {
        "kubelet": builder.cached(),
        "driver": drivers.cached(),
        "apiserver": apiservers.cached(),
    }
    print_all_built(found, as_json=as_json)
