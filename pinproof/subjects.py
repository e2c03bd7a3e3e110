"""Opening a subject for a command, with its progress shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from conformance.subject import Subject
from conformance.subjects import open_subject
from pinproof.busy import busy


@contextmanager
def opened(name: str) -> Iterator[Subject]:
    """The subject of this name, closed at the end."""
    with busy(name) as say:
        subject = open_subject(name, progress=say)
    try:
        yield subject
    finally:
        subject.close()
