"""``pinproof identify``: which named behaviours a binary has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import typer

from conformance.identifying.identify import identify as identity_of
from conformance.identifying.identity import Identity
from conformance.smoke import smoke
from conformance.subject import SubjectInfo
from conformance.subjects import open_subject
from conformance.verdict import ExitStatus
from pinproof.completion import subject_names
from pinproof.output import difference_facts, note, print_json
from pinproof.parameters import argument, option, with_options
from pinproof.progress import busy
from reference.behaviours import Behaviour
from reference.releases import Release, behaviours
from reports.text import clean

WORKERS: Final = min(len(os.sched_getaffinity(0)), 4)
SECONDS: Final = 300.0


class Format(Enum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Asked:
    subject: str = argument(
        "kubelet:BINARY, kubelet:1.36, exec:PROGRAM, reference or miniature:NAME.",
        autocompletion=subject_names,
    )
    form: Format = option(Format.TEXT, "How to print it.", "--format")
    workers: int = option(WORKERS, "How many histories run at a time.", "-n", min=1, max=16)
    seconds: float = option(
        SECONDS, "Begin no history after this number of seconds.", "--time", min=1
    )


@with_options
def identify(asked: Asked) -> None:
    """Say which named behaviours a binary has: the release that fits best, the behaviours that the
    binary has or lacks beside it, and those that contradict the release that it states.

    The binary runs short histories, each of which tells a behaviour from its absence. A behaviour
    that only one history shows is called doubtful. Exit status 1: something contradicts the stated
    release, or the binary does what no known release does.
    """
    found, info = _identified(asked.subject, asked.workers, asked.seconds)
    if asked.form is Format.JSON:
        print_json(as_json(found, info.name, info.version))
    else:
        for line in lines(found, info.name, info.version):
            typer.echo(clean(line))
    raise typer.Exit(int(_status(found)))


def _identified(name: str, workers: int, seconds: float) -> tuple[Identity, SubjectInfo]:
    with closing(open_subject(name)) as subject, busy("identify") as say:
        smoke(subject)
        found = identity_of(name, subject, workers=workers, seconds=seconds, say=say)
        return found, subject.info


def judged_as(name: str) -> tuple[str, list[str]]:
    """The release to judge a subject by, and the behaviours that it has or lacks beside that, as
    ``--behaviour`` takes them. What only one history shows is left out: it may be a fault. What
    contradicts the release that the subject states goes to stderr. Raises :class:`SubjectError`."""
    found, _ = _identified(name, WORKERS, SECONDS)
    note(f"pinproof: {name} is judged as {_known_as(found)}")
    for line in [*_oddities(found), *_contradictions(found), *_missing(found)]:
        note(f"pinproof: {line}")
    fits = found.sure
    minor = Release(fits.minor)
    plain = minor if behaviours(minor) == behaviours(fits.plain) else fits.plain
    return str(plain), [f"{title}={'on' if has else 'off'}" for title, has in fits.overrides]


def _status(found: Identity) -> ExitStatus:
    """The exit status. Histories that were lost or had no time are noted first: with them the
    answer may be another."""
    if not found.as_stated:
        return ExitStatus.NOT_CONFORMANT
    if found.lost or found.out_of_time:
        note(f"pinproof: {'; '.join(_missing(found))}")
        return ExitStatus.COULD_NOT_TELL
    return ExitStatus.CONFORMANT


def _missing(found: Identity) -> Iterator[str]:
    if found.lost:
        yield f"{len(found.lost)} histories were lost: {found.lost[0]}"
    if found.out_of_time:
        yield f"{found.out_of_time} histories were not finished in time"


def _contradictions(found: Identity) -> Iterator[str]:
    doubtful = {*found.doubtful}
    known = [pair for pair in found.contradictions if pair[0] not in doubtful]
    if known:
        yield f"It says that it is {found.stated}, but it behaves differently:"
    for behaviour, has in known:
        yield f"  {'has' if has else 'lacks'} {_described(behaviour)}"
    if doubtful:
        yield "Only one history shows each of these, so each may be another fault:"
    for behaviour in found.doubtful:
        yield f"  {'has' if behaviour in found.gained else 'lacks'} {_described(behaviour)}"
        yield from (f"    shown by: {history}" for history in found.witnesses.get(behaviour, ()))


def _oddities(found: Identity) -> Iterator[str]:
    for odd in found.unexplained:
        yield f"No known release does this: {odd.history}"
        for one in odd.differences:
            yield (
                f"  after step {odd.step + 1}: {one.what}: the nearest has {one.expected}, "
                f"seen {one.seen}"
            )


def sentence(found: Identity) -> str:
    """The answer, as ``1.36, with distribution-ends, without held-cpus-kept-first; 9 could not be
    asked``. What no release explains comes first."""
    text = f"{_known_as(found)}; {len(found.not_asked)} could not be asked"
    if not found.unexplained:
        return text
    odd = len(found.unexplained)
    histories = f"{odd} of {found.histories} histories"
    return f"no known release behaves as it does in {histories}; the nearest is {text}"


def _known_as(found: Identity) -> str:
    doubtful = {*found.doubtful}
    parts = [found.release]
    for word, behaviours_ in (("with", found.gained), ("without", found.lacking)):
        parts += [f"{word} {one.title}" for one in behaviours_ if one not in doubtful]
        parts += [f"perhaps {word} {one.title}" for one in behaviours_ if one in doubtful]
    return ", ".join(parts)


def lines(found: Identity, name: str, version: str) -> list[str]:
    """The answer for a person: what no release explains, then what contradicts the stated one."""
    said = f"{name} ({version})" if version else name
    made = [f"{said}: {sentence(found)}", *_oddities(found), *_contradictions(found)]
    made.append(
        f"{len(found.asked)} of {len(Behaviour)} behaviours were asked in {found.histories} runs."
    )
    if found.not_asked:
        made.append("docs/how-to/identifying.md says why not the others; --format json names them.")
    return [*made, *_missing(found)]


def _described(behaviour: Behaviour) -> str:
    return f"{behaviour.title}: {behaviour.value.says} {behaviour.value.source}"


def as_json(found: Identity, name: str, version: str) -> dict[str, Any]:
    return {
        "subject": name,
        "version": version,
        "stated": found.stated,
        "fits": found.fits,
        "release": found.release,
        "with": [one.title for one in found.gained],
        "without": [one.title for one in found.lacking],
        "doubtful": [one.title for one in found.doubtful],
        "witnesses": {one.title: len(shown) for one, shown in found.witnesses.items()},
        "contradictions": {one.title: has for one, has in found.contradictions},
        "unexplained": [
            {
                "history": str(odd.history),
                "step": odd.step + 1,
                "differences": difference_facts(odd.differences),
            }
            for odd in found.unexplained
        ],
        "asked": sorted(one.title for one in found.asked),
        "not asked": [one.title for one in found.not_asked],
        "runs": found.histories,
        "lost": list(found.lost),
        "out of time": found.out_of_time,
    }
