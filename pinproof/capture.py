"""``pinproof capture``: a machine taken from where it is, and written down."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from pinproof import import_export
from pinproof.output import note
from pinproof.progress import busy
from topologies import capturing
from topologies.capturing import BadTarget

_QEMU: Final = "qemu:"
_SSH: Final = "ssh:"


def capture(
    target: Annotated[
        str,
        typer.Argument(
            help="ssh://user@host[:port]; qemu:SPEC; a folder that holds sys and proc; a file of "
            "another program. Without one: this host.",
            show_default=False,
        ),
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="The archive to write: NAME.tar.xz, with NAME.toml beside it."
        ),
    ] = None,
    why: Annotated[str, typer.Option(help="One line on what this machine is for.")] = "",
    force: Annotated[bool, typer.Option(help="Replace what is there.")] = False,
    accept_new_host_key: Annotated[
        bool,
        typer.Option(help="Trust a host whose key is not in known_hosts, and add its key."),
    ] = False,
    known_hosts: Annotated[
        Path | None, typer.Option(help="Instead of ~/.ssh/known_hosts.", show_default=False)
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(help="A private key to log in with.", show_default=False),
    ] = None,
    kernel: Annotated[
        Path | None,
        typer.Option(help="A bzImage for qemu: instead of Debian's.", show_default=False),
    ] = None,
    accel: Annotated[str, typer.Option(help="For qemu: auto, kvm or tcg.")] = "auto",
    deadline: Annotated[
        float | None, typer.Option(min=1, help="Seconds for the whole capture.", show_default=False)
    ] = None,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete",
            help="For a folder: add files that follow from others. For a file this is always done.",
        ),
    ] = False,
) -> None:
    """Capture a machine: this host, a node over SSH, one that QEMU boots a kernel on, or what
    another program captured.

    Files of other programs are archives of hwloc-gather-topology, dumps for lscpu, and what
    lscpu -p, lscpu -e, lscpu -J -e and lstopo --of xml print. Stderr names the files that were
    completed.

    A capture has only what the kubelet, lscpu and hwloc read, and nothing that identifies the
    machine: no serial number, MAC address or host name. A node needs neither root nor Python.
    Prints the path of the archive. Stderr names what was left out and what is odd.
    """
    if complete or Path(target).is_file():
        if why:
            raise BadTarget(target, "--why is for what pinproof captures itself")
        import_export.import_(Path(target), output, force)
        return
    place = output or Path(_default_name(target))
    capturing.check_place(place, force=force)
    with busy(f"capture {target or 'this host'}") as say:
        if target.startswith(_QEMU):
            made = capturing.capture_qemu(
                target.removeprefix(_QEMU), kernel=kernel, deadline=deadline, accel=accel, say=say
            )
        elif target.startswith(_SSH):
            made = capturing.capture_ssh(
                target,
                known_hosts=known_hosts,
                accept_new_host_key=accept_new_host_key,
                key=key,
                deadline=deadline or 60,
            )
        else:
            if ":" in target and not Path(target).exists():
                raise BadTarget(
                    target, "a target is ssh://user@host, qemu:SPEC, a folder or a file"
                )
            made = capturing.capture_host(target or "/", deadline=deadline or 60)
    for text in made.left_out:
        note(f"pinproof: left out: {text}")
    for text in made.warnings:
        note(f"pinproof: warning: {text}")
    typer.echo(capturing.write_capture(made, place, why=why, force=force))


def _default_name(target: str) -> str:
    """``machine.tar.xz``: a host's name has no place in a capture, nor in its file's name."""
    spec = target.removeprefix(_QEMU)
    plain = target.startswith(_QEMU) and re.fullmatch(r"[0-9][a-z0-9,-]{1,120}", spec)
    return f"{spec}.tar.xz" if plain else "machine.tar.xz"
