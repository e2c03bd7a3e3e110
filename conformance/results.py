"""The result stream: JSON lines, a header first and a footer last.

Every reader of a stream uses :func:`read`. It yields one :class:`Header`, then each complete
:class:`Result`, with its machine and its scenario, then one :class:`Footer`. The form of the lines
is in :mod:`conformance.lines`; readers do not depend on it.

A stream without a footer was cut off; :func:`read` raises an error for it. Readers do not trust a
stream: lines are decoded against their types, and none may be longer than :data:`LONGEST`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from conformance.lines import SCHEMA, Reader, Writer
from conformance.records import (
    Difference,
    Failure,
    Footer,
    Header,
    Holding,
    KnownFailure,
    MachineRecord,
    Moment,
    NodeRecord,
    Observations,
    Record,
    Result,
    Shard,
    Sighting,
    SubjectRecord,
)

__all__ = [
    "SCHEMA",
    "Difference",
    "Failure",
    "Footer",
    "Header",
    "Holding",
    "KnownFailure",
    "MachineRecord",
    "Moment",
    "NodeRecord",
    "Observations",
    "Record",
    "Result",
    "ResultsError",
    "Shard",
    "Sighting",
    "SubjectRecord",
    "decode",
    "encode",
    "read",
    "written",
]

#: The most bytes of a line. The longest that a run writes is a failure with its log, about 100 KB.
LONGEST: Final = 32 << 20


class ResultsError(Exception):
    """A result stream cannot be read; ``str()`` is one line that names file and line."""


class _Sent(Result, tag="result", tag_field="kind", kw_only=True, frozen=True):
    """A result of which the machine is not decoded yet."""

    machine: msgspec.Raw  # type: ignore[assignment]


class _Number(msgspec.Struct, tag="header", tag_field="kind", frozen=True):
    """The schema's number in a header of any schema."""

    schema: int


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_Sent)
_MACHINE_DECODER: Final = msgspec.json.Decoder(MachineRecord)
_NUMBER: Final = msgspec.json.Decoder(_Number)


def encode(result: Result) -> bytes:
    """One result alone, as a worker sends it to the process that writes the stream."""
    return _ENCODER.encode(result)


def decode(text: bytes | str) -> Result:
    """The result of :func:`encode`. Those of equal machines share one :class:`MachineRecord`.

    Raises :class:`msgspec.DecodeError` or ``UnicodeDecodeError``.
    """
    sent = _DECODER.decode(text)
    values = msgspec.structs.asdict(sent)
    return Result(**{**values, "machine": _machine(bytes(sent.machine))})


@lru_cache(maxsize=256)
def _machine(text: bytes) -> MachineRecord:
    """Cached, because a run has few machines, and they are the largest part of each result."""
    return _MACHINE_DECODER.decode(text)


def written(records: Iterable[Record]) -> str:
    """A whole stream: header, results, footer."""
    lines = Writer()
    return b"".join(line + b"\n" for one in records for line in lines.lines(one)).decode()


def read(path: Path) -> Iterator[Record]:
    """The records of a stream file, in order.

    Raises :class:`ResultsError` if a line is not a record, the header is missing or of another
    schema, or the footer is missing (the run was cut off).
    """
    last: Record | None = None
    reader = Reader()
    try:
        with path.open("rb") as stream:
            number = 0
            while line := stream.readline(LONGEST + 1):
                number += 1
                if isinstance(last, Footer):
                    raise ResultsError(f"{path}:{number}: text after the footer")
                record = _decode(reader, line, path, number)
                if record is not None:
                    last = record
                    yield record
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror or error}") from error
    if last is None:
        raise ResultsError(f"{path}: empty, no header")
    if not isinstance(last, Footer):
        raise ResultsError(f"{path}: cut off: the footer is missing")


def _decode(reader: Reader, line: bytes, path: Path, number: int) -> Record | None:
    if len(line) > LONGEST:
        raise ResultsError(f"{path}:{number}: longer than {LONGEST} bytes")
    if number == 1:
        _require_schema(line, path)
    try:
        record = reader.record(line)
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{path}:{number}: not a record: {error}") from error
    if number == 1 and not isinstance(record, Header):
        raise ResultsError(f"{path}:1: the header is missing")
    if number > 1 and isinstance(record, Header):
        raise ResultsError(f"{path}:{number}: a second header")
    return record


def _require_schema(line: bytes, path: Path) -> None:
    """Refuse a stream of another schema in one line, whatever else its header has."""
    try:
        schema = _NUMBER.decode(line).schema
    except (ValueError, RecursionError):
        return  # not a header: the caller raises an error for that
    if schema != SCHEMA:
        age = "newer" if schema > SCHEMA else "older"
        raise ResultsError(
            f"{path}:1: schema {schema} is {age} than {SCHEMA}, which this pinproof reads"
        )
