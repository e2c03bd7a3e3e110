"""``pinproof lab``: real nodes without hardware, booted in QEMU."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import yaml

from conformance.ending import ENDING, handled
from conformance.extras import require
from hil import lab
from hil.lab import keys, runtime, tools
from hil.lab.errors import LabUsageError
from pinproof.output import print_listed
from pinproof.parameters import AsJson, argument, option, with_options
from pinproof.progress import busy

app = typer.Typer(no_args_is_help=True)

_Name = Annotated[str, typer.Argument(help="The node.", metavar="NAME")]
_Deadline = Annotated[
    float | None, typer.Option(min=1, help="Seconds for each boot.", show_default=False)
]


@dataclass(frozen=True, slots=True)
class Asked:
    specs: list[str] = argument("One node for each machine: 2s-2n-8c-smt2.", metavar="SPEC...")
    kubelet: Path = option(MISSING, "The kubelet to put on them.")
    name: str = option("", "The name of a single node.")
    inventory: Path | None = option(None, "Where to write the inventory.")
    kubelet_config: Path | None = option(
        None, "KubeletConfiguration (YAML) that overrides the lab's own."
    )
    cgroup: str = option("v2", "v1 or v2.")
    oci_runtime: str = option(runtime.DEFAULT, "OCI runtime under containerd: crun or runc.")
    memory: int | None = option(None, "MiB; default 2048, more for many CPUs.")
    snapshot: bool = option(True, "Start from a snapshot, made once for nodes of one kind.")
    accel: str = option("auto", "auto, kvm or tcg.")
    deadline: _Deadline = None


@app.command("up", epilog="Example: pinproof lab up 2s-2n-8c-smt2 --kubelet ./kubelet")
@with_options
def up(asked: Asked) -> None:
    """Boot nodes, and print the path of an inventory that names them.

    A node is ready when its kubelet is healthy and its kernel shows the machine that was described.
    The first of its kind boots for minutes under emulation and leaves a snapshot; the next ones
    take seconds. Use: --subject node:INVENTORY, or `pinproof lab ssh NAME`.
    """
    require("paramiko")
    wish = lab.Wish(
        specs=asked.specs,
        kubelet=asked.kubelet,
        name=asked.name,
        settings=_settings(asked.kubelet_config),
        memory=asked.memory,
        cgroup=_version(asked.cgroup),
        oci=asked.oci_runtime,
        accel=asked.accel,
        fresh=not asked.snapshot,
        inventory=asked.inventory,
        deadline=asked.deadline,
    )
    with _ended_by_signals(), busy("lab up") as say:
        path, _ = lab.up(wish, lambda who, stage: say(f"{who}: {stage}" if who else stage))
    typer.echo(path)


@app.command("list", epilog="Example: pinproof lab list --json")
def list_(as_json: AsJson = False) -> None:
    """List the lab's nodes, also incomplete ones of killed runs."""
    found = [node.facts() for node in lab.all_nodes()]
    none = ": pinproof lab up 2s-2n-8c-smt2 --kubelet ./kubelet"
    print_listed(found, map(_line, found), none, as_json=as_json)


def _line(facts: Mapping[str, Any]) -> str:
    what = "  ".join(str(facts.get(key, "")) for key in ("spec", "kubelet", "url", "inventory"))
    return f"{facts['name']:<10} {facts['state']:<9}  {what}".rstrip()


@app.command(
    "ssh",
    epilog="Example: pinproof lab ssh node1 -- systemctl status kubelet",
    context_settings={"allow_interspersed_args": False},
)
def ssh(
    name: _Name,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="What to run; without it, a shell.", metavar="[-- COMMAND...]"),
    ] = None,
) -> NoReturn:
    """Log in as root, or run a command; its exit status is this command's.

    Several words reach the node unchanged; a single word is a script for the node's shell.
    """
    node = lab.named(name)
    door = node.door
    program = tools.found(tools.SSH)
    words = [
        program, "-F", "none", "-p", str(door.port), "-i", str(node.folder / keys.LOGIN),
        "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=yes",
        "-o", f'UserKnownHostsFile="{node.folder / keys.KNOWN_HOSTS}"', "root@127.0.0.1",
    ]  # fmt: skip
    # The words after the name are passed on, with or without ``--`` before them.
    said = command[1:] if command and command[0] == "--" else command
    script = shlex.join(said) if said and len(said) > 1 else "".join(said or ())
    os.execv(program, [*words, *([script] if script else [])])  # noqa: S606


@app.command("down", epilog="Example: pinproof lab down --all")
def down(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which nodes.", metavar="[NAME...]")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All nodes.")] = False,
) -> None:
    """Remove nodes: process, disk, keys and inventory of each."""
    for name in lab.down(names or (), everything=everything):
        typer.echo(name)


@app.command("reboot", epilog="Example: pinproof lab reboot node1 --machine 2s-2n-16c-smt2")
def reboot(
    name: _Name,
    machine: Annotated[
        str, typer.Option(help="Boot it as this machine: the CPU upgrade.", show_default=False)
    ] = "",
    hard: Annotated[bool, typer.Option(help="Cut the power instead of shutting down.")] = False,
    deadline: _Deadline = None,
) -> None:
    """Boot a node again, the same or as another machine; print its name.

    If the kubelet then refuses to start, as it does on hardware, its error goes to stderr.
    """
    with _ended_by_signals(), busy(f"lab {name}") as say:
        done = lab.reboot(name, spec=machine, hard=hard, deadline=deadline, say=say)
    if done.refusal:
        typer.echo(f"pinproof: {name}: the kubelet does not start: {done.refusal}", err=True)
    typer.echo(name)


@app.command("reset", epilog="Example: pinproof lab reset node1")
def reset(name: _Name, deadline: _Deadline = None) -> None:
    """Make a node as new: its own machine, an empty disk, new keys; print its name.

    Its name and its inventory stay. What a run left on it is gone.
    """
    with _ended_by_signals(), busy(f"lab {name}") as say:
        lab.reset(name, deadline=deadline, say=say)
    typer.echo(name)


@app.command("image", epilog="Example: pinproof lab image")
def image(
    rebuild: Annotated[bool, typer.Option(help="Build it again, from today's packages.")] = False,
) -> None:
    """Build the image that nodes boot, if there is none, and print its folder."""
    with _ended_by_signals(), busy("lab image") as say:
        made = lab.ready_image(say, rebuild=rebuild)
    typer.echo(made.folder)


@app.command("clean", epilog="Example: pinproof lab clean")
def clean() -> None:
    """Remove snapshots and images that no node needs, and print what was removed."""
    for path in lab.clean():
        typer.echo(path)


def _version(cgroup: str) -> int:
    versions = {"v1": 1, "v2": 2, "1": 1, "2": 2}
    if cgroup not in versions:
        raise LabUsageError(f"--cgroup {cgroup!r}: it is v1 or v2")
    return versions[cgroup]


def _settings(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        why = f"byte {error.start} is not UTF-8 text"
        raise LabUsageError(f"not a KubeletConfiguration: {path}: {why}") from error
    except (OSError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise LabUsageError(f"not a KubeletConfiguration: {path}: {why}") from error
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise LabUsageError(f"not a KubeletConfiguration: {path}: not a mapping")
    return found


def _ended_by_signals() -> contextlib.AbstractContextManager[None]:
    """SIGTERM and the like end the command as Ctrl-C does: nodes that were begun are removed."""

    def end(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    return handled(ENDING, end)
