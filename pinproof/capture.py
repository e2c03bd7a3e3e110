"""``pinproof capture``: a machine, or a whole node, taken from where it is, and written down."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from conformance.subject import SubjectUsageError
from pinproof import import_export
from pinproof.collect import DEFAULT, PODS_HELP, collect_node
from pinproof.output import note
from pinproof.parameters import (
    AcceptNewHostKey,
    KnownHosts,
    Kubeconfig,
    TransportImage,
    argument,
    flags,
    option,
    with_options,
)
from pinproof.password import AskSudoPassword
from pinproof.probe import Login
from pinproof.progress import busy
from topologies import capturing
from topologies.capturing import BadTarget

_QEMU: Final = "qemu:"
_SSH: Final = "ssh:"
_THIS_HOST: Final = "local:"
_OF_A_MACHINE: Final = frozenset(("why", "kernel", "accel", "deadline", "complete"))
_OF_A_NODE: Final = frozenset(
    ("pods", "sudo", "ask_sudo_password", "kubeconfig", "transport_image")
)


@dataclass(frozen=True, slots=True)
class Asked:
    target: str = argument(
        "ssh://user@host[:port]; qemu:SPEC; a folder that holds sys and proc; a file of another "
        "program. Without one: this host.",
        "",
    )
    output: Path | None = option(
        None, "The archive to write: NAME.tar.xz, with NAME.toml beside it.", "-o", "--output"
    )
    why: str = option("", "One line on what this machine is for.")
    force: bool = option(False, "Replace what is there.")
    accept_new_host_key: AcceptNewHostKey = False
    known_hosts: KnownHosts = None
    key: Path | None = option(None, "A private key to log in with.")
    kernel: Path | None = option(None, "A bzImage for qemu: instead of Debian's.")
    accel: str = option("auto", "For qemu: auto, kvm or tcg.")
    node: bool = option(
        False,
        "The whole node, for pinproof upgrade --node: also the kubelet's settings and state files, "
        "and its pods' manifests.",
        "--node",
    )
    pods: str | None = option(None, f"With --node: {PODS_HELP}", metavar="FILE")
    sudo: bool = option(False, "With --node: become root with sudo, without a password.", "--sudo")
    ask_sudo_password: AskSudoPassword = False
    kubeconfig: Kubeconfig = None
    transport_image: TransportImage = ""
    deadline: float | None = option(None, "Seconds for the whole capture.", min=1)
    complete: bool = option(
        False,
        "For a folder: add files that follow from others. For a file this is always done.",
        "--complete",
    )


@with_options
def capture(context: typer.Context, asked: Asked) -> None:
    """Capture a machine, or with --node a whole node: this host, a node over SSH, one that QEMU
    boots a kernel on, or what another program captured.

    Files of other programs are archives of hwloc-gather-topology, dumps for lscpu, and what
    lscpu -p, lscpu -e, lscpu -J -e and lstopo --of xml print. Stderr names the files that were
    completed.

    A capture has only what the kubelet, lscpu and hwloc read, and nothing that identifies the
    machine: no serial number, MAC address or host name. A node needs neither root nor Python.
    Prints the path of the archive. Stderr names what was left out and what is odd.

    With --node the target is ssh://user@host, local: or an inventory NAME.toml. The node is only
    read. Every command that takes a machine takes this archive too. It has only the parts of a
    manifest that decide CPUs: no environment, arguments, volumes or labels.

    pinproof capture ssh://root@node7 --node -o node7.tar.xz && pinproof upgrade 1.36 1.37 --node
    node7.tar.xz
    """
    _require_of_one_kind(context, asked)
    if asked.node:
        _capture_node(asked)
        return
    target = asked.target
    if asked.complete or Path(target).is_file():
        if asked.why:
            raise BadTarget(target, "--why is for what pinproof captures itself")
        import_export.import_(Path(target), asked.output, asked.force)
        return
    place = asked.output or Path(_default_name(target))
    capturing.check_place(place, force=asked.force)
    with busy(f"capture {target or 'this host'}") as say:
        made = _captured(asked, say)
    for text in made.left_out:
        note(f"pinproof: left out: {text}")
    for text in made.warnings:
        note(f"pinproof: warning: {text}")
    typer.echo(capturing.write_capture(made, place, why=asked.why, force=asked.force))


def _require_of_one_kind(context: typer.Context, asked: Asked) -> None:
    others = flags(context, _OF_A_MACHINE if asked.node else _OF_A_NODE)
    if others:
        beside = "is not taken with" if asked.node else "is taken only with"
        raise SubjectUsageError(f"{others[0]} {beside} --node")


def _capture_node(asked: Asked) -> None:
    login = Login(
        node=asked.target or _THIS_HOST,
        accept_new_host_key=asked.accept_new_host_key,
        known_hosts=asked.known_hosts,
        key=asked.key,
        sudo=asked.sudo,
        ask_sudo_password=asked.ask_sudo_password,
        kubeconfig=asked.kubeconfig,
        transport_image=asked.transport_image,
    )
    collect_node(login, asked.output or Path(DEFAULT), asked.pods, force=asked.force)


def _captured(asked: Asked, say: Callable[[str], None]) -> capturing.Capture:
    target, deadline = asked.target, asked.deadline
    if target.startswith(_QEMU):
        spec = target.removeprefix(_QEMU)
        return capturing.capture_qemu(
            spec, kernel=asked.kernel, deadline=deadline, accel=asked.accel, say=say
        )
    if target.startswith(_SSH):
        return capturing.capture_ssh(
            target,
            known_hosts=asked.known_hosts,
            accept_new_host_key=asked.accept_new_host_key,
            key=asked.key,
            deadline=deadline or 60,
        )
    if ":" in target and not Path(target).exists():
        raise BadTarget(target, "a target is ssh://user@host, qemu:SPEC, a folder or a file")
    return capturing.capture_host(target or "/", deadline=deadline or 60)


def _default_name(target: str) -> str:
    """``SPEC.tar.xz`` for QEMU, otherwise ``machine.tar.xz``: a capture does not name its host."""
    spec = target.removeprefix(_QEMU)
    plain = target.startswith(_QEMU) and re.fullmatch(r"[0-9][a-z0-9,-]{1,120}", spec)
    return f"{spec}.tar.xz" if plain else "machine.tar.xz"
