"""The run as metrics, for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from conformance.known import Standing, tally
from reports.run import Run
from reports.text import line, utc

_Sample: TypeAlias = tuple[dict[str, str], float]


def document(run: Run) -> str:
    """The text; metrics start with ``pinproof_``."""
    return "".join(f"{one}\n" for one in _lines(run))


def _lines(run: Run) -> Iterator[str]:
    subject = run.header.subject
    who = {"subject": subject.name}
    info = {**who, "release": subject.release, "version": subject.version}
    info |= {"digest": subject.digest, "pinproof": run.header.pinproof}
    ended = utc(run.footer.finished) if run.footer else None
    yield from _metric("run_info", "What was run.", [(info, 1)])
    yield from _metric("run_exit_status", "0 is conformant.", [(who, run.status.value)])
    if run.footer and ended:
        yield from _metric("run_end_time_seconds", "When it ended.", [(who, ended.timestamp())])
        seconds = run.footer.seconds
        yield from _metric("run_duration_seconds", "How long it took.", [(who, seconds)])
    yield from _metric("results", "Results by machine and what they mean.", _counts(run, who))
    broken = [
        ({**who, "machine": one.machine.name, "scenario": one.scenario}, 1.0)
        for one in run.standings[Standing.FAIL]
    ]
    yield from _metric("broken_promise", "A promise that is broken.", broken)


def _counts(run: Run, who: dict[str, str]) -> Iterator[_Sample]:
    for machine, results in run.by_machine.items():
        for standing, count in tally(map(run.known.standing, results)).items():
            yield {**who, "machine": machine, "verdict": standing.value}, count


def _metric(name: str, about: str, samples: Iterable[_Sample]) -> Iterator[str]:
    yield f"# HELP pinproof_{name} {about}"
    yield f"# TYPE pinproof_{name} gauge"
    met: set[str] = set()
    for labels, value in samples:
        series = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        if series not in met:  # a duplicate series makes the whole file invalid
            met.add(series)
            yield f"pinproof_{name}{{{series}}} {value:.17g}"


def _escaped(text: str) -> str:
    return line(text).replace("\\", "\\\\").replace('"', '\\"')
