"""A capture: a tree, made from a node's stream and checked, with facts of where it is from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from topologies.capturing.errors import CaptureError
from topologies.capturing.stream import BrokenStream, Received, read_stream
from topologies.cpulist import parse_list
from topologies.identity import without_identity
from topologies.linting import Finding, lint
from topologies.paths import CPU, CPUINFO
from topologies.tree import Tree

#: This many contradictions are listed; the rest is counted.
_MOST_LISTED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """A machine as its kernel shows it.

    ``source`` says where it was captured, without a host name, so that it can be published.
    ``left_out`` has a line for each thing that was not read or was blanked, ``warnings`` one for
    each contradiction. ``impossible`` is the first of these that no kernel shows at one moment,
    ``""`` without one. ``shape`` is the description it was made from, ``""`` for hardware without a
    description.
    """

    tree: Tree = field(repr=False)
    source: str
    kernel: str = ""
    arch: str = ""
    shape: str = ""
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    impossible: str = ""


def captured(data: bytes, *, where: str, source: str) -> Capture:
    """The capture that a node's stream holds. ``where`` names the node in errors, ``source`` in
    the capture. Raises :class:`CaptureError` where the stream is not a capture, or lacks the online
    CPUs or their topology."""
    try:
        received = read_stream(data)
    except BrokenStream as error:
        raise CaptureError(where, str(error)) from error
    left_out = [f"{path}: could not be read" for path in received.unreadable]
    left_out += _blank_identities(received)
    if received.nul_bytes:
        left_out.append("NUL bytes, which no text file of the kernel holds")
    _check_whole(received, where)
    findings = lint(received.tree)
    return Capture(
        tree=received.tree,
        source=f"{source}, Linux {received.kernel or 'unknown'}, {received.arch or 'unknown'}",
        kernel=received.kernel,
        arch=received.arch,
        left_out=tuple(left_out),
        warnings=_warnings(findings),
        impossible=next((str(one) for one in findings if one.impossible), ""),
    )


def _blank_identities(received: Received) -> list[str]:
    if CPUINFO not in received.entries:
        return []
    text, changed = without_identity(received.entries[CPUINFO])
    received.entries[CPUINFO] = text
    return [f"{CPUINFO}: {name} identifies the machine: written as zeros" for name in changed]


def _check_whole(received: Received, where: str) -> None:
    path = f"{CPU}/online"
    unreadable = f" ({len(received.unreadable)} files could not be read)"
    hint = unreadable if received.unreadable else ""
    try:
        online = parse_list(received.entries.get(path, ""))
    except ValueError as error:
        raise CaptureError(where, f"{path}: {error}") from error
    if not online:
        raise CaptureError(where, f"incomplete capture: {path} is missing or empty{hint}")
    if not any(name.startswith(f"{CPU}/cpu") and "/topology/" in name for name in received.entries):
        raise CaptureError(where, f"incomplete capture: no CPU has a topology folder{hint}")


def _warnings(findings: Sequence[Finding]) -> tuple[str, ...]:
    lines = [str(finding) for finding in findings]
    if more := len(lines[_MOST_LISTED:]):
        return (*lines[:_MOST_LISTED], f"{more} more contradictions in the tree")
    return tuple(lines)
