"""Writes the result stream: the header first, each result as it comes, the footer last."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from conformance.lines import SCHEMA, Writer
from conformance.records import Footer, Header, Record, Result, SubjectRecord
from conformance.subject import SubjectInfo
from conformance.verdict import ExitStatus, Verdict


def host(judged_by: str) -> dict[str, str]:
    """Facts about the host for readers, without a host name or a user."""
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpus of the host": str(os.cpu_count() or 0),
        "pinproof": version("pinproof"),
        "judged by release": judged_by,
    }


class StreamWriter:
    """The stream of one run; without a path it writes nothing. ``about`` are further fields of the
    header (:class:`conformance.records.Header`). ``before`` are header and results of the earlier
    part of the run. The stream begins with them, and replaces the earlier stream in one rename, so
    that a run that dies here loses nothing."""

    def __init__(
        self,
        path: Path | None,
        subject: SubjectInfo,
        machines: Sequence[str],
        environment: Mapping[str, str],
        before: tuple[Header, Sequence[Result]] | None = None,
        **about: Any,
    ) -> None:
        self._started = time.monotonic()
        self._path = path
        self._lines = Writer()
        self._stream: BinaryIO | None = None
        header = Header(
            schema=SCHEMA,
            pinproof=version("pinproof"),
            subject=SubjectRecord(**dataclasses.asdict(subject)),
            started=_now(),
            machines=list(machines),
            environment=dict(environment),
            **about,
        )
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if before is None:
            self._stream = path.open("wb")
            self._write(header)
        else:
            self._go_on(path, _resumed(before[0], header), before[1])

    def _go_on(self, path: Path, header: Header, results: Sequence[Result]) -> None:
        new = path.with_suffix(".new")
        self._stream = new.open("wb")
        self._write(header)
        for result in results:
            self._write(result)
        os.fsync(self._stream.fileno())
        new.replace(path)

    def add(self, result: Result) -> None:
        """Add a result, written at once: a run that dies keeps its results."""
        self._write(result)

    def finish(
        self, counts: Mapping[Verdict, int], status: ExitStatus, idle: Sequence[str] = ()
    ) -> None:
        """Write the footer and close; ``idle`` as in :class:`conformance.records.Footer`."""
        self._write(
            Footer(
                counts={verdict.value: count for verdict, count in counts.items()},
                exit_status=int(status),
                finished=_now(),
                seconds=round(time.monotonic() - self._started, 3),
                idle=list(idle),
            )
        )
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def abandon(self) -> None:
        """Close without a footer."""
        stream, self._stream = self._stream, None
        if stream is not None:
            with contextlib.suppress(OSError):  # what a full disk did not take
                stream.close()

    def discard(self) -> None:
        """Close and remove the stream: there was no run."""
        self.abandon()
        if self._path is None:
            return
        try:
            self._path.unlink(missing_ok=True)
        except OSError:
            self._path.write_bytes(b"")  # a path that cannot be removed

    def _write(self, record: Record) -> None:
        if self._stream is not None:
            self._stream.write(b"".join(line + b"\n" for line in self._lines.lines(record)))
            self._stream.flush()


def _resumed(was: Header, now: Header) -> Header:
    """The header of both parts: that of the first, with what the second adds."""
    return msgspec.structs.replace(
        was,
        machines=list(dict.fromkeys((*was.machines, *now.machines))),
        digests={**now.digests, **was.digests},
        resumed=[*was.resumed, now.started],
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
