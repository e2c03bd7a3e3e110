"""How ``node.sh`` on a node is called, and what its answers mean.

What belongs here: making scripts and reading results. What never does: when they are run
(:mod:`hil.safety.guarded`).
"""

from __future__ import annotations

import base64
import re
import secrets
import shlex
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Final

from hil.changes import (
    Change,
    InstallFile,
    KeepFile,
    Note,
    OwnPods,
    PutBack,
    RemoveFile,
    SetOnline,
    WriteFile,
)
from hil.inspection.script import LEFTOVERS
from hil.safety.errors import LeaseLost, NodeBusy, NotRestored
from hil.shell import Done, NodeUnfit
from topologies.errors import one_line

#: The folder of all that pinproof keeps on a node.
PLACE: Final = LEFTOVERS[0]
#: A path that needs no encoding.
_PLAIN: Final = re.compile(r"/[A-Za-z0-9/._@:+=,%-]*")
#: A DNS label, as Kubernetes asks of it.
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_MADE: Final = re.compile(r"^echo (made-[0-9a-f]+) >&2$", re.MULTILINE)
_NAME: Final = "pinproof: "
_USAGE, _REFUSED, _BUSY, _FULL, _LOST, _DIFFERS = 70, 71, 73, 74, 75, 76
_OWN_STATUSES: Final = frozenset({_USAGE, _REFUSED, _BUSY, _FULL, _LOST, _DIFFERS})


def _agent() -> bytes:
    return files("hil.safety").joinpath("node.sh").read_bytes()


def call(root: str, *words: str) -> str:
    """A script that calls ``node.sh``; ``root`` is where the node's ``/`` lies. A node that
    restored itself has removed it."""
    place = _place(root)
    gone = "{ echo 'pinproof: the node restored itself meanwhile' >&2; exit 75; }"
    return f"[ -f {place} ] || {gone}\nsh {place} {' '.join(map(shlex.quote, words))}"


def _place(root: str) -> str:
    return shlex.quote(f"{root.rstrip('/')}{PLACE}/node.sh")


def beginning(root: str, owner: str, *, patience: int, every: int) -> str:
    """A script that lets a ``node.sh`` that is there sweep first, sets the dead-man timer, writes
    ``node.sh``, and begins a journal. Fields come on stdin (:func:`fields`)."""
    place = shlex.quote(f"{root.rstrip('/')}{PLACE}")
    encoded = base64.b64encode(_agent()).decode()
    sweep = f"sh {_place(root)} sweep {shlex.quote(owner)}"
    begin = call(root, "begin", owner, str(patience), str(every))
    return (
        f"d={place}\n"
        '[ ! -f "$d/node.sh" ] || ' + sweep + " </dev/null || exit $?\n"
        f"agent=$(printf %s {encoded} | base64 -d)\n"
        # Whenever this is killed, the timer removes what was written.
        f'sh -c "$agent" "$d/node.sh" arm {every} </dev/null\n'
        'mkdir -p "$d" && chmod 700 "$d" || exit 74\n'
        'printf "%s\\n" "$agent" >"$d/node.sh.new" &&\n'
        '  sync "$d/node.sh.new" 2>/dev/null; '
        f'[ "$(wc -c <"$d/node.sh.new")" -eq {len(_agent())} ] &&\n'
        '  mv -f "$d/node.sh.new" "$d/node.sh" ||\n'
        '  { [ -d "$d/journal" ] || rm -rf "$d"; '
        "echo 'pinproof: nothing can be written: is the disk full?' >&2; exit 74; }\n"
        f"{begin}\n"
    )


def fields(watched: Iterable[str], values: Mapping[str, str]) -> bytes:
    """What a journal begins with: the paths whose content is compared, and named values."""
    lines = [f"watched {_encoded(path)}" for path in dict.fromkeys(watched) if path]
    lines += [f"{name} {_encoded(value)}" for name, value in values.items() if value]
    return "".join(f"{line}\n" for line in lines).encode()


def applying(root: str, owner: str, then: str) -> tuple[str, str]:
    """A script that makes the changes on stdin, and then runs ``then``, holding the node's lock all
    the time; and the line on stderr after all changes were made."""
    token = f"made-{secrets.token_hex(8)}"
    place = shlex.quote(f"{root.rstrip('/')}{PLACE}")
    # What the script leaves running does not hold the lock.
    after = f"(\nexec 9>&-\n{then}\n)\ns=$?; rm -f {place}/step; exit $s\n" if then else ""
    after = f"exec </dev/null\n{after}"
    return (
        f"[ ! -d {place} ] || exec 9>>{place}/lock\n"
        f"(\nPINPROOF_STEP=$$; export PINPROOF_STEP\n{call(root, 'apply', owner)}\n) || exit $?\n"
        f"echo {token} >&2\n{after}"
    ), token


def answer_to(script: str) -> bytes:
    """What a script of :func:`applying` says on stderr if all goes well; ``b""`` for another
    script."""
    token = _MADE.search(script)
    return f"{token[1]}\n".encode() if token else b""


def restoring(root: str, *, force: bool) -> str:
    """A script that undoes what a run left, if there is anything."""
    place = shlex.quote(f"{root.rstrip('/')}{PLACE}")
    words = "restore force" if force else "restore"
    units = " ".join(shlex.quote(f"{root.rstrip('/')}{one}") for one in LEFTOVERS[1:])
    return (
        f"d={place}\nleft=\n"
        'if [ -f "$d/node.sh" ] || [ -d "$d/journal" ]; then\n'
        f'  left=1; sh "$d/node.sh" {words} || exit $?\n'
        # The run was killed before node.sh was there: nothing was changed.
        'elif [ -e "$d" ]; then left=1; rm -rf "$d"; fi\n'
        f"set -- {units}\n"
        'there=; for one; do [ ! -e "$one" ] || there="$there $one"; done\n'
        'if [ -n "$there" ]; then\n'
        "  left=1\n"
        "  systemctl stop pinproof-dead-man.timer pinproof-dead-man-boot.service 2>/dev/null\n"
        '  rm -f "$@"\n'
        "  systemctl reset-failed pinproof-dead-man.timer pinproof-dead-man.service 2>/dev/null\n"
        '  case $there in */etc/*) rmdir "${one%/*}" 2>/dev/null; systemctl daemon-reload ;; esac\n'
        "fi\n"
        '[ -n "$left" ] || echo nothing >&2\n'
    )


def status(root: str) -> str:
    """A script that prints who holds the node, what was changed, and what is wrong with restoring
    it, for :func:`hil.safety.left_by_a_run`; nothing where no run left anything."""
    unit = "pinproof-dead-man.service"
    return (
        f"[ ! -f {_place(root)} ] || sh {_place(root)} status\n"
        f"! systemctl is-failed --quiet {unit} 2>/dev/null ||\n"
        f"  echo 'timer its last look failed: systemctl status {unit}'\n"
    )


def lines(changes: Iterable[Change]) -> bytes:
    """Changes as they go over stdin."""
    return "".join(f"{_line(change)}\n" for change in changes).encode()


def _line(change: Change) -> str:
    match change:
        case WriteFile(path, content, mode):
            return f"file {_path(path)} {mode:o} {base64.b64encode(content).decode()}"
        case RemoveFile(path):
            return f"remove {_path(path)}"
        case InstallFile(path, source):
            return f"install {_path(path)} {_path(source)}"
        case PutBack(path):
            return f"back {_path(path)}"
        case KeepFile(path):
            return f"keep {_path(path)}"
        case SetOnline(cpu, online):
            return f"cpu {cpu:d} {online:d}"
        case Note(undo):
            return f"note {_encoded(undo)}"
        case OwnPods(namespace):
            if not _NAMESPACE.fullmatch(namespace):
                raise ValueError(f"no name of a namespace: {namespace!r}")
            return f"claim {namespace}"


def describe(change: Change) -> str:
    """A change in words, for ``--dry-run``."""
    match change:
        case WriteFile(path, content):
            return f"write {len(content)} bytes to {path}"
        case RemoveFile(path):
            return f"remove {path}"
        case InstallFile(path, source):
            return f"replace {path} by {source}"
        case PutBack(path):
            return f"put {path} back as it was"
        case KeepFile(path):
            return f"keep a copy of {path}"
        case SetOnline(cpu, online):
            return f"set CPU {cpu} {'online' if online else 'offline'}"
        case Note(undo):
            return f"note for undoing: {undo.strip()}"
        case OwnPods(namespace):
            return f"note that pods of namespace {namespace} are the run's own"


def _path(path: str) -> str:
    if not path.startswith("/") or "\n" in path or "\0" in path or "/../" in f"{path}/":
        raise ValueError(f"no absolute path: {path!r}")
    return path if _PLAIN.fullmatch(path) else _encoded(path)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()


def check(node: str, done: Done, *, manual: str = "") -> None:
    """Raise the error that the exit status of a call stands for."""
    if done.status == 0:
        return
    said = done.stderr.decode("utf-8", "replace").strip()
    ours = messages(done.stderr)
    reason = one_line((ours or said.splitlines() or ["it said nothing"])[-1])
    if done.status == _DIFFERS:
        differences = [one_line(line) for line in done.text.splitlines() if line]
        raise NotRestored(node, differences or [reason], manual=manual)
    kind = {_BUSY: NodeBusy, _LOST: LeaseLost}.get(done.status, NodeUnfit)
    status = "" if done.status in _OWN_STATUSES else f" (status {done.status})"
    raise kind(f"{node}: {reason}{status}", evidence=said)


def messages(stderr: bytes) -> list[str]:
    """What ``node.sh`` says on stderr, a line each, without its name."""
    said = stderr.decode("utf-8", "replace").splitlines()
    return [one_line(one.removeprefix(_NAME)) for one in said if one.startswith(_NAME)]


def manual_steps(node: str, root: str = "") -> str:
    """The command that restores the node by hand."""
    return f"on {node}, as root: sh {_place(root)} restore force"
