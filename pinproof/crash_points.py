"""``pinproof hunt --crash-points``: what a kubelet makes of each moment at which it is killed."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import typer

from conformance.crash_points import MACHINE, Point, Tried, walk
from conformance.subjects import open_subject
from conformance.verdict import ExitStatus
from pinproof.output import note
from pinproof.progress import busy
from reports.text import clean


def crash_points(subject: str, machine: str, depth: int) -> ExitStatus:
    """Kill the subject at every point of every history, and print those after which it broke a
    promise. What was found before an interruption is printed too. Raises
    :class:`conformance.subject.SubjectError`."""
    opened, tried = open_subject(subject), list[Tried]()
    try:
        with (
            busy("crash points") as say,
            closing(walk(opened, machine=machine or MACHINE, depth=depth, say=say)) as walked,
        ):
            for one in walked:
                tried.append(one)
                for broken in one.broken:
                    typer.echo(clean(f"{one.point}\n  broken: {broken}"))
    except KeyboardInterrupt:
        note("pinproof: crash points: interrupted")
        return ExitStatus.COULD_NOT_TELL
    finally:
        opened.close()
        places = Counter(_place(one.point) for one in tried if one.broken)
        where = ", ".join(f"{count} {place}" for place, count in places.items()) or "none"
        killed = sum(bool(one.point.number) for one in tried)
        typer.echo(f"{opened.info.name}: killed at {killed} points; broken: {where}")
    return ExitStatus.NOT_CONFORMANT if places else ExitStatus.CONFORMANT


def _place(point: Point) -> str:
    return f"at {point.file}" if point.number else "without a kill"
