"""Checking a certificate: what can be recomputed is, and what cannot is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Final

from conformance.results import ResultsError
from reports.certificate.document import (
    SCHEMA,
    CertificateError,
    Facts,
    Statement,
    decode,
    digest_of,
    encode,
    seal_of,
)
from reports.certificate.making import ALLOWED, RESULTS, listed, profile_of, verdict_from, words
from reports.certificate.upgrading import contradiction
from reports.run import Run, load, verdict_of
from reports.text import few, line, utc, when

_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "pass": frozenset({"pass"}),
    "fail": frozenset({"fail"}),
    "unknown": frozenset({"unknown"}),
    "not-run": frozenset({"skip"}),
    "skip": frozenset({"skip"}),
}


class Answer(Enum):
    """The answer to one question."""

    OK = "ok"
    WRONG = "wrong"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Check:
    """One question about a certificate, its answer, and why."""

    what: str
    answer: Answer
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Here:
    """What the checker has: the time, and the pinproof that is installed with its catalogue."""

    now: datetime
    pinproof: str
    catalogue: str


def read(data: bytes) -> Statement:
    """The certificate. Raises :class:`CertificateError` in one line: for what is not one, for a
    newer form, for any bytes but those that pinproof wrote."""
    statement = decode(data)
    if statement.facts.schema != SCHEMA:
        raise CertificateError(
            f"a certificate of form {statement.facts.schema}; this pinproof knows {SCHEMA}"
        )
    if encode(statement) != data:
        raise CertificateError("changed since it was written: not the bytes that pinproof writes")
    if seal_of(statement) != statement.facts.digest:
        raise CertificateError("changed since it was written: its own digest does not fit")
    return statement


def checks(statement: Statement, here: Here, stream: Path | None = None) -> Iterator[Check]:
    """Every question about a certificate that was read, with its answer."""
    facts = statement.facts
    yield Check("the certificate's own digest", Answer.OK, facts.digest)
    yield _answer("counts, verdict and words agree", _disagreement(statement))
    yield _answer("machine and times are possible", _impossible(facts))
    yield _expiry(facts, here.now)
    yield _catalogue(facts, here)
    if stream is None:
        yield Check(
            "the verdicts", Answer.UNCHECKED, f"give {line(facts.evidence.name)} to recompute them"
        )
    else:
        yield from _against(facts, stream)
    if facts.upgrade:
        yield Check("the upgrade", Answer.UNCHECKED, "no result stream shows it: make it again")
    if facts.noise:
        yield Check(
            "scheduling noise", Answer.UNCHECKED, "no result stream shows it: measure again"
        )
    for what, needed in _OUT_OF_REACH.items():
        yield Check(what, Answer.UNCHECKED, needed)


_OUT_OF_REACH: Final = {
    "machine, firmware and system": "only the node itself can show them",
    "the kubelet's digest": "compare with sha256sum of its program",
    "the configuration's digest": "only the node itself can show it",
}


def _answer(what: str, wrong: str) -> Check:
    return Check(what, Answer.WRONG if wrong else Answer.OK, wrong)


def _disagreement(statement: Statement) -> str:
    facts, predicate = statement.facts, statement.predicate
    names = [profile.name for profile in facts.profiles]
    if names != ["core", "extended"]:
        return f"its profiles are {line(', '.join(names)) or 'missing'}"
    for profile in facts.profiles:
        counted = profile_of(
            profile.name, facts.scenarios, release=facts.kubelet.release, claimed=profile.claimed
        )
        if counted != profile:
            return f"the counts of profile {profile.name} are not those of its scenarios"
    if not facts.profiles[0].claimed:
        return "it does not claim the core profile"
    if len({entry.id for entry in facts.scenarios}) != len(facts.scenarios):
        return "a scenario is listed twice"
    lists = {
        "passed": predicate.passed, "warned": predicate.warned, "failed": predicate.failed,
    }  # fmt: skip
    if listed(facts.scenarios) != lists:
        return "the lists of tests are not those of its scenarios"
    whole = not (facts.caution or facts.narrowed)
    if facts.upgrade and (wrong := contradiction(facts.upgrade)):
        return wrong
    if facts.upgrade and facts.restored and not facts.upgrade.restored:
        return "it was not restored after the upgrade, and says that it was"
    follows = verdict_from(
        facts.profiles,
        restored=facts.restored,
        whole=whole,
        upgrade=facts.upgrade,
        judged=facts.judged,
    )
    if facts.verdict != follows and not (follows == "success" and facts.verdict == "partial"):
        return f"its verdict is {facts.verdict}; {follows} follows from its scenarios"
    if predicate.result != RESULTS[facts.verdict]:
        return f"its result {predicate.result} is not that of the verdict {facts.verdict}"
    if facts.exit_status not in ALLOWED[facts.verdict]:
        return f"exit status {facts.exit_status} is not one of the verdict {facts.verdict}"
    said = words(
        facts.verdict,
        facts.scenarios,
        facts.profiles,
        restored=facts.restored,
        caution=facts.caution,
        upgrade=facts.upgrade,
        judged=facts.judged,
    )
    return "" if said == facts.words else "its text is not that of its verdict"


def _impossible(facts: Facts) -> str:
    machine, places = facts.machine, facts.machine.places.values()
    counted = (
        len(places),
        len({socket for _, socket, _, _ in places}),
        len({numa for numa, _, _, _ in places}),
    )
    if counted != (machine.cpus, machine.sockets, machine.numa_nodes):
        return "the machine's counts are not those of its CPUs"
    times = [utc(text) for text in (facts.started, facts.finished, facts.expires) if text]
    if None in times or times != sorted(filter(None, times)):
        return "its times are not in order"
    return ""


def _expiry(facts: Facts, now: datetime) -> Check:
    expires = utc(facts.expires)
    if expires is None:
        return Check("not expired", Answer.WRONG, "it has no date of expiry: its run did not end")
    past = expires < now
    word = "expired on" if past else "until"
    return Check(
        "not expired", Answer.WRONG if past else Answer.OK, f"{word} {when(facts.expires)}"
    )


def _catalogue(facts: Facts, here: Here) -> Check:
    what, suite = "the catalogue's digest", facts.suite
    if suite.pinproof != here.pinproof:
        return Check(
            what,
            Answer.UNCHECKED,
            f"needs pinproof {line(suite.pinproof)}, this is {here.pinproof}",
        )
    if suite.catalogue == here.catalogue:
        return Check(what, Answer.OK, here.catalogue)
    return Check(what, Answer.WRONG, "this pinproof of the same version has another catalogue")


def _against(facts: Facts, stream: Path) -> Iterator[Check]:
    """The questions that the result stream answers."""
    try:
        data = stream.read_bytes()
    except OSError as error:
        raise CertificateError(f"{stream}: {error.strerror}") from error
    same = digest_of(data) == facts.evidence.digest and len(data) == facts.evidence.bytes
    yield _answer(
        "the result stream's digest", "" if same else f"{stream} is another file or was changed"
    )
    try:
        run = load(stream)
    except ResultsError as error:
        yield Check("the verdicts", Answer.WRONG, line(str(error)))
        return
    yield _answer("the verdicts", _unlike(facts, run))


def _unlike(facts: Facts, run: Run) -> str:
    """In what the certificate differs from its run; ``""``: in nothing."""
    seen = {result.scenario: verdict_of(result).value for result in reversed(run.ordered)}
    claimed = {entry.id: entry.outcome for entry in facts.scenarios if entry.evidence}
    if missing := sorted(map(line, claimed.keys() ^ seen.keys())):
        return f"certificate and result stream list different scenarios: {few(missing, 3)}"
    differing = [one for one, outcome in claimed.items() if seen[one] not in _WORDS[outcome]]
    if differing:
        return f"certificate and result stream differ in {few(sorted(map(line, differing)), 3)}"
    subject = run.header.subject
    if line(subject.version) != facts.kubelet.version and subject.version:
        return f"the result stream is of kubelet {line(subject.version)}"
    if subject.digest and subject.digest != facts.kubelet.digest:
        return "the result stream is of another kubelet"
    places = [dict(result.machine.cpus) for result in run.results[:1]]
    if places and places[0] and places[0] != dict(facts.machine.places):
        return "the result stream is of another machine"
    if run.header.catalogue not in ("", facts.suite.catalogue):
        return "the result stream is of another catalogue"
    if utc(run.header.started) != utc(facts.started):
        return "the result stream started at another time"
    return ""
