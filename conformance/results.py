"""The result stream: one JSON object a line, a header first and a footer last.

A stream without its footer was cut off, and says so when it is read. Readers trust nothing in it:
lines are decoded against these types, and unknown fields are refused only by a newer
``schema`` number in the header.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

SCHEMA: Final = 1


class ResultsError(Exception):
    """A result stream cannot be read; ``str()`` is one line that names file and line."""


class SubjectRecord(msgspec.Struct, kw_only=True, frozen=True):
    """The subject as a report names it (:class:`conformance.subject.SubjectInfo`)."""

    name: str
    release: str
    version: str = ""
    digest: str = ""
    facts: dict[str, str] = {}


class Header(msgspec.Struct, tag="header", tag_field="kind", kw_only=True, frozen=True):
    """First line: what was run, by what, where. ``started`` is ISO 8601, UTC."""

    schema: int
    pinproof: str
    subject: SubjectRecord
    started: str
    machines: list[str]
    environment: dict[str, str] = {}


class MachineRecord(msgspec.Struct, kw_only=True, frozen=True):
    """A machine: ``cpus`` maps each CPU to [NUMA node, socket, core, uncore cache], the ids the
    kubelet uses; ``digest`` is of its tree."""

    name: str
    shape: str
    digest: str
    cpus: dict[int, tuple[int, int, int, int]]


class Difference(msgspec.Struct, kw_only=True, frozen=True):
    """One thing that was not as it had to be. ``missing`` and ``unexpected`` are CPU lists, the
    difference where both sides are sets of CPUs, else ``""``."""

    what: str
    expected: str
    seen: str
    missing: str = ""
    unexpected: str = ""


class Holding(msgspec.Struct, kw_only=True, frozen=True):
    """Who holds which CPUs: ``owner`` is ``pod/container``, ``reserved`` or ``shared pool``."""

    owner: str
    cpus: str


class Moment(msgspec.Struct, kw_only=True, frozen=True):
    """Who held which CPUs after a step that changed it; ``step`` is the step in words."""

    step: str
    holdings: list[Holding]


class Failure(msgspec.Struct, kw_only=True, frozen=True):
    """Why a verdict is not ``pass``. ``rule`` is the promise or invariant that was broken;
    ``expected_holdings`` and ``seen_holdings`` are what a picture is drawn from, on ``machine``
    where the scenario had changed the result's machine by then; ``moments`` is how it came to be
    so. All three are empty where the failure is not about CPUs."""

    rule: str
    differences: list[Difference] = []
    expected_holdings: list[Holding] = []
    seen_holdings: list[Holding] = []
    moments: list[Moment] = []
    machine: MachineRecord | None = None


class Result(msgspec.Struct, tag="result", tag_field="kind", kw_only=True, frozen=True):
    """One scenario on one machine. ``verdict`` is a value of :class:`Verdict`; ``steps`` are the
    steps taken, as a person reads them; ``explanation`` is the whole story as text; ``seconds``
    is wall time; ``evidence`` is log excerpts, and the kubelet's own error line where it gave up
    (also of a scenario that passes: a refusal may be what is promised). ``witness`` is what it was
    judged by, besides the promise in words: the model, or a recording of a real kubelet.
    ``unable``: of a skipped scenario, that it does apply to this machine and release, and the
    subject could not, or was not allowed to, do what it takes."""

    scenario: str
    title: str
    area: str
    level: str
    source: str
    source_url: str
    machine: MachineRecord
    verdict: str
    reason: str = ""
    seconds: float = 0.0
    steps: list[str] = []
    failure: Failure | None = None
    explanation: str = ""
    replay: str = ""
    evidence: str = ""
    kubelet_errors: list[str] = []
    witness: str = ""
    worker: str = ""
    unable: bool = False


class Footer(msgspec.Struct, tag="footer", tag_field="kind", kw_only=True, frozen=True):
    """Last line: counts by verdict, exit status, and when it ended. ``idle`` are the machines that
    were named and on which no scenario applied."""

    counts: dict[str, int]
    exit_status: int
    finished: str
    seconds: float
    idle: list[str] = []


Record: TypeAlias = Header | Result | Footer


class _Line(Result, tag="result", tag_field="kind", kw_only=True, frozen=True):
    """A result of which the machine is not decoded yet."""

    machine: msgspec.Raw  # type: ignore[assignment]


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Header | _Line | Footer)
_MACHINE_DECODER: Final = msgspec.json.Decoder(MachineRecord)


def encode(record: Record) -> bytes:
    """One line of the stream, without its newline."""
    return _ENCODER.encode(record)


def decode(line: bytes | str) -> Record:
    """The record of one line. Results of equal machines share one :class:`MachineRecord`.

    Raises :class:`msgspec.DecodeError` or ``UnicodeDecodeError``.
    """
    record: Header | _Line | Footer = _DECODER.decode(line)
    if not isinstance(record, _Line):
        return record
    values = msgspec.structs.asdict(record)
    return Result(**{**values, "machine": _machine(bytes(record.machine))})


@lru_cache(maxsize=256)
def _machine(text: bytes) -> MachineRecord:
    """Remembered, because the machines of a run are few, and the largest part of each line."""
    return _MACHINE_DECODER.decode(text)


def read(path: Path) -> Iterator[Record]:
    """The records of a stream file, in order.

    Raises :class:`ResultsError` where a line is no record, the header is missing or of a newer
    schema, or the footer is missing (the run was cut off).
    """
    last: Record | None = None
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if isinstance(last, Footer):
                    raise ResultsError(f"{path}:{number}: text after the footer")
                last = _decode(line, path, number)
                yield last
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror or error}") from error
    if last is None:
        raise ResultsError(f"{path}: empty, no header")
    if not isinstance(last, Footer):
        raise ResultsError(f"{path}: cut off: the footer is missing")


def _decode(line: bytes, path: Path, number: int) -> Record:
    try:
        record = decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}:{number}: not a record: {error}") from error
    if number == 1:
        if not isinstance(record, Header):
            raise ResultsError(f"{path}:1: the header is missing")
        if record.schema > SCHEMA:
            raise ResultsError(f"{path}:1: schema {record.schema} is newer than {SCHEMA}")
    elif isinstance(record, Header):
        raise ResultsError(f"{path}:{number}: a second header")
    return record
