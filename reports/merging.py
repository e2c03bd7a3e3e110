"""Several streams as one run: the shards of one run, or one run on each of many nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from conformance.known import tally
from conformance.results import Footer, Header, ResultsError, Shard, written
from conformance.verdict import ExitStatus
from reports.run import Run
from reports.text import few, line

#: Subjects that are machines: results of several of them are one run on many nodes.
_NODES: Final = "node:"


def merged(runs: Sequence[Run], names: Sequence[str]) -> Run:
    """These runs as one; ``names`` are what their streams are called. The exit status is that of
    all results together: a shard in which nothing applied is no fault.

    Raises :class:`conformance.results.ResultsError` where they do not belong together: other
    scenarios or another pinproof, other subjects that are no nodes, two machines of one name, a
    result that two streams have.
    """
    if len(runs) == 1:
        return runs[0]
    _require_one_run(runs, names)
    header = _header(runs)
    of_nodes = runs[0].header.subject.name.startswith(_NODES)
    subjects = {name: run.header.subject for run in runs for name in run.machines if of_nodes}
    whole = Run(
        header,
        tuple(result for run in runs for result in run.results),
        None,
        "; ".join(run.cut_off for run in runs if run.cut_off),
        subjects=subjects,
    )
    if whole.part or any(run.footer is None for run in runs):
        return whole
    applied = {one.machine.name for one in whole.results if one.verdict != "skip"}
    idle = sorted({name for run in runs for name in run.idle} - applied)
    footer = Footer(
        counts={verdict.value: count for verdict, count in whole.counts.items()},
        exit_status=int(_status(runs, whole, idle)),
        finished=max(run.footer.finished for run in runs if run.footer),
        seconds=max(run.footer.seconds for run in runs if run.footer),
        idle=idle,
    )
    return replace(whole, footer=footer)


def _status(runs: Sequence[Run], whole: Run, idle: Sequence[str]) -> ExitStatus:
    for graver in (ExitStatus.NOT_RESTORED, ExitStatus.USAGE):
        if any(run.status is graver for run in runs):
            return graver
    floor = whole.header.configuration.get("floor", "") if whole.header.shard else ""
    status = whole.known.status(
        tally(map(whole.known.standing, whole.results)),
        floor=int(floor) if floor.isdecimal() else 1,
        idle=idle,
    )
    unclear = any(run.status is ExitStatus.COULD_NOT_TELL for run in runs)
    return ExitStatus.COULD_NOT_TELL if unclear and status is ExitStatus.CONFORMANT else status


def _header(runs: Sequence[Run]) -> Header:
    first, headers = runs[0].header, [run.header for run in runs]
    subjects = list({header.subject.name: header.subject for header in headers}.values())
    subject = first.subject
    if len(subjects) > 1:
        releases = sorted({line(one.release) for one in subjects})
        subject = msgspec.structs.replace(
            subject,
            name=f"{len(subjects)} nodes: {few([line(one.name) for one in subjects])}",
            release=", ".join(releases),
            version="",
            digest="",
            facts={},
        )
    known = dict.fromkeys(entry for header in headers for entry in header.known)
    return msgspec.structs.replace(
        first,
        subject=subject,
        started=min(header.started for header in headers),
        machines=list(dict.fromkeys(name for header in headers for name in header.machines)),
        digests={name: one for header in headers for name, one in header.digests.items()},
        known=list(known),
        nodes={name: one for header in headers for name, one in header.nodes.items()},
        shard=_shard(headers),
    )


def _shard(headers: Sequence[Header]) -> Shard | None:
    """The parts that every subject has."""
    parts: dict[str, set[int]] = {}
    for header in headers:
        if header.shard is not None:
            parts.setdefault(header.subject.name, set()).update(header.shard.parts)
    if not parts:
        return None
    assert headers[0].shard is not None
    return Shard(of=headers[0].shard.of, parts=sorted(set.intersection(*parts.values())))


def _count(header: Header) -> str:
    return f"{header.shard.of} shards" if header.shard else "no shards"


def _require_one_run(runs: Sequence[Run], names: Sequence[str]) -> None:
    first = runs[0].header
    machines: dict[str, str] = {}
    met: set[tuple[str, str]] = set()
    for run, name in zip(runs, names, strict=True):
        header = run.header
        if (header.pinproof, header.catalogue) != (first.pinproof, first.catalogue):
            raise ResultsError(f"{name}: other pinproof version or scenarios than {names[0]}")
        both = (header.subject.name, first.subject.name)
        if header.subject != first.subject and not all(one.startswith(_NODES) for one in both):
            raise ResultsError(f"{name}: of another subject than {names[0]}: {line(both[0])}")
        if _count(header) != _count(first):
            raise ResultsError(f"{name}: of {_count(header)}, {names[0]} is of {_count(first)}")
        if header.shard and header.configuration != first.configuration:
            raise ResultsError(f"{name}: of a run with other options than {names[0]}")
        for result in run.results:
            machine = result.machine
            if machines.setdefault(machine.name, machine.digest) != machine.digest:
                raise ResultsError(f"{name}: another machine has the name {line(machine.name)}")
        cases = {(result.scenario, result.machine.name) for result in run.results}
        if twice := sorted(cases & met):
            scenario, machine_name = map(line, twice[0])
            raise ResultsError(f"{name}: {scenario} on {machine_name} is in another stream as well")
        met |= cases


def as_stream(run: Run) -> str:
    """The run as one result stream, for example from its shards. Raises
    :class:`conformance.results.ResultsError` where its results are of several subjects, which one
    header cannot name, and where parts are missing."""
    if run.part or run.footer is None:
        raise ResultsError(f"not a whole run: {run.cut_off or run.part}")
    if len({subject.name for subject in run.subjects.values()}) > 1:
        raise ResultsError("several nodes cannot have one result stream: each has its own")
    return written((run.header, *run.results, run.footer))
