"""``--resume``: a run goes on with the cases for which its result stream has no verdict.

What belongs here: reading the earlier part, whether this run is the same one, and which cases are
decided. What never does: writing the stream (:mod:`conformance.stream`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest

from conformance.catalogue import digest as catalogue_digest
from conformance.records import Header, Result, SubjectRecord
from conformance.results import ResultsError, read
from conformance.session.knowing import known_of
from conformance.session.options import configuration
from conformance.session.selection import cases, shard_of
from conformance.session.subject import judged_by, subject_of
from conformance.verdict import Verdict
from topologies.errors import one_line

_KEY: Final = pytest.StashKey["Before | None"]()
#: The key of a worker's input for the ids of the cases that are decided.
DECIDED: Final = "pinproof-decided"
#: Verdicts that decide a case; a case with any other is run again.
_VERDICTS: Final = (Verdict.PASS.value, Verdict.FAIL.value, Verdict.SKIP.value)


@dataclass(frozen=True)
class Before:
    """The earlier part of a run: its header, and its results that are verdicts."""

    header: Header
    results: tuple[Result, ...]

    @property
    def decided(self) -> frozenset[str]:
        """The ids of the cases that have a verdict."""
        return frozenset(f"{one.scenario}@{one.machine.name}" for one in self.results)


def decided(config: pytest.Config) -> frozenset[str]:
    """The ids of the cases that are not to be run again; a worker has them from the controller."""
    sent: list[str] | None = getattr(config, "workerinput", {}).get(DECIDED)
    if sent is not None:
        return frozenset(sent)
    before = before_of(config)
    return before.decided if before else frozenset()


def before_of(config: pytest.Config) -> Before | None:
    """The earlier part of this run; ``None`` if there is none. Raises :class:`pytest.UsageError` if
    it is a part of another run."""
    if _KEY not in config.stash:
        config.stash[_KEY] = _found(config) if config.getoption("--pin-resume") else None
    return config.stash[_KEY]


def _found(config: pytest.Config) -> Before | None:
    directory = config.getoption("--pin-report")
    if not directory:
        raise pytest.UsageError("--pin-resume goes on in --pin-report DIR, which is not given")
    path = Path(directory) / "result.jsonl"
    try:
        before = _read(path)
    except ResultsError as error:
        raise pytest.UsageError(f"--resume: {error}") from error
    if before is not None:
        was, now = _identity(before.header), _identity_of(config)
        for what, value in now.items():
            if was[what] != value:
                raise pytest.UsageError(
                    f"--resume: {path} is of another {what}: {_shown(was[what], value)}"
                )
        _require_same_machines(path, before.header, config)
    return before


def _read(path: Path) -> Before | None:
    """The results before the first line that cannot be read: a killed run may leave half a line."""
    header: Header | None = None
    results: dict[str, Result] = {}
    if not path.exists() or b"\n" not in path.read_bytes():
        return None
    try:
        for record in read(path):
            if isinstance(record, Header):
                header = record
            elif isinstance(record, Result) and record.verdict in _VERDICTS:
                results.setdefault(f"{record.scenario}@{record.machine.name}", record)
    except ResultsError:
        if header is None:
            raise
    return None if header is None else Before(header, tuple(results.values()))


def _identity(header: Header) -> dict[str, object]:
    """What must be equal in both parts of a run, by its name in messages."""
    return {
        "subject": _subject(header.subject),
        "pinproof": header.pinproof,
        "catalogue": header.catalogue,
        "release to judge by": header.environment.get("judged by release", ""),
        "configuration": header.configuration,
        "shard": header.shard,
        "list of known failures": header.known,
    }


def _identity_of(config: pytest.Config) -> dict[str, object]:
    info = subject_of(config).info
    subject = SubjectRecord(
        name=info.name, release=info.release, version=info.version, digest=info.digest
    )
    return {
        "subject": _subject(subject),
        "pinproof": version("pinproof"),
        "catalogue": catalogue_digest(),
        "release to judge by": judged_by(config),
        "configuration": configuration(config),
        "shard": shard_of(config),
        "list of known failures": list(known_of(config).entries),
    }


def _subject(subject: SubjectRecord) -> str:
    return " ".join((subject.name, subject.release, subject.version, subject.digest)).strip()


def _require_same_machines(path: Path, header: Header, config: pytest.Config) -> None:
    """Raises :class:`pytest.UsageError` if a machine of the earlier part is not in this run."""
    now = {case.machine.name: case.machine.digest for case in cases(config)}
    for name, digest in header.digests.items():
        if now.get(name) != digest:
            raise pytest.UsageError(
                f"--resume: {path} is of another machine: {one_line(name)} is "
                f"{now.get(name) or 'not in this run'} now, it was {one_line(digest)}"
            )


def _shown(was: object, now: object) -> str:
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        differing = [name for name in {**was, **now} if was.get(name) != now.get(name)]
        pairs = (f"{name} {was.get(name, '-')}, now {now.get(name, '-')}" for name in differing)
        return one_line("; ".join(pairs))
    if isinstance(was, str) and isinstance(now, str):
        return f"{one_line(was)}, now {one_line(now)}"
    return "it differs"
