"""Making a certificate of a run: the outcome of every scenario, and the verdict that follows.

The verdict is *failure* where a promise is broken, *not-restored* where none is and the node was
not left as it was, *none* where no required scenario was run, *partial* where one that applies was
skipped, has no verdict or did not run, and *success* otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from conformance.results import Result
from conformance.verdict import ExitStatus
from conformance.verdict import Verdict as Seen
from reports.certificate.document import (
    PREDICATE,
    SCHEMA,
    STATEMENT,
    Configuration,
    Descriptor,
    Digest,
    Entry,
    Evidence,
    Facts,
    Firmware,
    Judged,
    Kubelet,
    Level,
    Machine,
    Noise,
    Outcome,
    Predicate,
    Profile,
    Record,
    Statement,
    Suite,
    System,
    Unit,
    Upgrade,
    Verdict,
    digest_of,
    sealed,
)
from reports.run import GRAVITY, Run, verdict_of
from reports.text import few, line, utc

T = TypeVar("T", bound=Record)
LEVELS: Final[tuple[Level, ...]] = ("core", "extended")
#: What a certificate does not claim.
NOT_CLAIMED: Final = (
    "Not claimed: performance, security, or any programme of the CNCF. This certificate is about "
    "the machine, firmware, kernel, runtime, kubelet and configuration named here, at the time of "
    "the run."
)
NODE: Final = "a real kubelet on a real kernel"
IN_THE_LOOP: Final = (
    "a real kubelet that was shown a {} machine, with a stand-in for the container runtime; "
    "no kernel, firmware or hardware was judged"
)
RESULTS: Final[Mapping[Verdict, str]] = {
    "success": "PASSED",
    "partial": "WARNED",
    "none": "WARNED",
    "not-restored": "WARNED",
    "failure": "FAILED",
}
_STATUSES: Final[Mapping[Verdict, ExitStatus]] = {
    "success": ExitStatus.CONFORMANT,
    "partial": ExitStatus.TOO_FEW,
    "none": ExitStatus.TOO_FEW,
    "not-restored": ExitStatus.NOT_RESTORED,
    "failure": ExitStatus.NOT_CONFORMANT,
}
#: Exit statuses that a certificate of each verdict may have.
ALLOWED: Final[Mapping[Verdict, frozenset[int]]] = {
    "success": frozenset({0}),
    "partial": frozenset({2, 3, 4}),
    "none": frozenset({2, 3, 4}),
    "not-restored": frozenset({5}),
    "failure": frozenset({1, 5}),
}
_OUTCOMES: Final[Mapping[Seen, Outcome]] = {
    Seen.PASS: "pass",
    Seen.FAIL: "fail",
    Seen.UNKNOWN: "unknown",
    Seen.SKIP: "skip",
}


@dataclass(frozen=True, slots=True)
class Promise:
    """A scenario of the catalogue. ``against`` says why it does not apply to this release, machine
    and kind of subject, ``""``: it does; ``node_only`` that only a real node can show it."""

    id: str
    title: str
    level: Level
    source: str
    against: str = ""
    node_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a certificate has beside the run. ``level`` is what it claims; ``narrowed`` what the run
    was narrowed to (``""``: everything was asked); ``allowed`` what the run was allowed to do;
    ``operator`` who runs it; ``pre`` that there is no node, so that it is a pre-certificate."""

    title: str
    machine: Machine
    kubelet: Kubelet
    promises: Sequence[Promise]
    suite: Suite
    unit: Unit = field(default_factory=Unit)
    operator: str = ""
    firmware: Firmware = field(default_factory=Firmware)
    system: System = field(default_factory=System)
    configuration: Configuration = field(default_factory=Configuration)
    level: Level = "core"
    pre: bool = False
    allowed: str = ""
    narrowed: str = ""
    lint: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    noise: Sequence[Noise] = ()
    judged: Sequence[Judged] = ()
    upgrade: Upgrade | None = None
    valid: timedelta = timedelta(days=365)


def make(run: Run, findings: Findings, stream: Path) -> Statement:
    """The certificate of a run on one machine; ``stream`` is the result stream that ``run`` was
    read from. Raises :class:`OSError`."""
    data = stream.read_bytes()
    digest = digest_of(data)
    entries = list(_entries(run, findings))
    profiles = [
        profile_of(
            level,
            entries,
            release=findings.kubelet.release,
            claimed=level in ("core", findings.level),
        )
        for level in LEVELS
    ]
    caution = line(run.caution)
    upgrade = findings.upgrade
    restored = run.status is not ExitStatus.NOT_RESTORED and (upgrade is None or upgrade.restored)
    whole = not (caution or findings.narrowed)
    verdict, status = _outcome(run, findings, profiles, restored=restored, whole=whole)
    finished = run.footer.finished if run.footer else ""
    facts = Facts(
        schema=SCHEMA,
        kind="pre-certificate" if findings.pre else "certificate",
        title=line(findings.title),
        verdict=verdict,
        words=words(
            verdict,
            entries,
            profiles,
            restored=restored,
            caution=caution,
            upgrade=upgrade,
            judged=findings.judged,
        ),
        exit_status=int(status),
        digest="",
        depth=_depth(findings),
        started=_time(run.header.started),
        finished=_time(finished),
        expires=_time(finished, findings.valid),
        suite=msgspec.structs.replace(findings.suite, witnesses=dict(run.witnesses)),
        machine=_cleaned(findings.machine),
        unit=_cleaned(findings.unit),
        operator=line(findings.operator),
        firmware=_cleaned(findings.firmware),
        system=_cleaned(findings.system),
        kubelet=_cleaned(findings.kubelet),
        configuration=_cleaned(findings.configuration),
        profiles=profiles,
        restored=restored,
        allowed=findings.allowed,
        narrowed=line(findings.narrowed),
        caution=caution,
        lint=[line(one) for one in findings.lint],
        facts={line(name): line(text) for name, text in findings.facts.items()},
        noise=list(findings.noise),
        judged=list(findings.judged),
        upgrade=upgrade,
        scenarios=entries,
        evidence=Evidence(name=stream.name, digest=digest, bytes=len(data)),
        not_claimed=NOT_CLAIMED,
    )
    predicate = Predicate(
        result=RESULTS[verdict],  # type: ignore[arg-type]
        configuration=_configuration(findings, stream.name, digest),
        **listed(entries),
        pinproof=facts,
    )
    return sealed(
        Statement(
            type=STATEMENT,
            subject=_subjects(findings),
            predicate_type=PREDICATE,
            predicate=predicate,
        )
    )


def _outcome(
    run: Run, findings: Findings, profiles: Sequence[Profile], *, restored: bool, whole: bool
) -> tuple[Verdict, ExitStatus]:
    upgrade = findings.upgrade
    verdict = verdict_from(
        profiles, restored=restored, whole=whole, upgrade=upgrade, judged=findings.judged
    )
    if verdict == "success" and run.status is not ExitStatus.CONFORMANT:
        verdict = "partial"
    if not restored:
        return verdict, ExitStatus.NOT_RESTORED
    if upgrade and upgrade.outcome == "unknown" and verdict == "partial":
        return verdict, ExitStatus.COULD_NOT_TELL
    return verdict, run.status if int(run.status) in ALLOWED[verdict] else _STATUSES[verdict]


def listed(entries: Iterable[Entry]) -> dict[str, list[str]]:
    """The lists of in-toto's predicate: ids of scenarios that passed, that need a verdict and have
    none, and that failed."""
    found: dict[str, list[str]] = {"passed": [], "warned": [], "failed": []}
    for entry in entries:
        if entry.outcome == "pass":
            found["passed"].append(entry.id)
        elif entry.outcome == "fail":
            found["failed"].append(entry.id)
        elif is_open(entry):
            found["warned"].append(entry.id)
    return found


def is_open(entry: Entry) -> bool:
    """Whether a scenario that needs a verdict has none."""
    return entry.outcome == "unknown" or (entry.outcome == "not-run" and entry.level == "core")


def verdict_from(
    profiles: Iterable[Profile],
    *,
    restored: bool,
    whole: bool,
    upgrade: Upgrade | None = None,
    judged: Iterable[Judged] = (),
) -> Verdict:
    """The verdict that follows from the counts, the upgrade and what was ``judged`` beside them;
    ``whole``: nothing was left out on purpose, and the result stream is complete."""
    by_name = {profile.name: profile for profile in profiles}
    upgraded = upgrade.outcome if upgrade else "kept"
    if not all(one.kept for one in judged):
        return "failure"
    if upgraded == "broken" or any(profile.broken for profile in by_name.values()):
        return "failure"
    if not restored:
        return "not-restored"
    if not any(profile.ran for profile in by_name.values()):
        return "none"
    missing = sum(
        profile.unknown + (profile.not_run if profile.claimed else 0)
        for profile in by_name.values()
    )
    if missing or upgraded == "unknown" or not whole or not by_name["core"].kept:
        return "partial"
    return "success"


def words(
    verdict: Verdict,
    entries: Sequence[Entry],
    profiles: Sequence[Profile],
    *,
    restored: bool,
    caution: str,
    upgrade: Upgrade | None = None,
    judged: Iterable[Judged] = (),
) -> str:
    asked = [profile for profile in profiles if profile.claimed]
    ran, apply = sum(one.ran for one in asked), sum(one.apply for one in asked)
    said = []
    unkept = [one for one in judged if not one.kept]
    if broken := [entry.id for entry in entries if entry.outcome == "fail"]:
        count = "1 promise is" if len(broken) == 1 else f"{len(broken)} promises are"
        said.append(f"{count} broken: {few(broken, 3)}.")
    if verdict == "none":
        said.append(f"None of {apply} required scenarios was run.")
    elif not broken and ran == apply and verdict != "partial":
        said.append(
            f"Every required scenario that applies to this machine and release was run ({ran} of "
            f"{apply}), and every promise{' of the kubelet' if unkept else ''} was kept."
        )
    elif ran < apply:
        said.append(f"{apply - ran} of {apply} required scenarios have no verdict.")
    elif verdict == "partial":
        said.append("No promise is broken, but not everything was asked.")
    if upgrade:
        said.append(upgrade.words)
    said += [f"Not kept: {one.claim}. {one.what}: {one.seen}." for one in unkept]
    if not restored:
        said.append("The node was not left as it was found (see `pinproof restore`).")
    return " ".join([*said, caution]).strip()


def _depth(findings: Findings) -> str:
    kind = "described" if findings.machine.described else "captured"
    return IN_THE_LOOP.format(kind) if findings.pre else NODE


def _entries(run: Run, findings: Findings) -> Iterator[Entry]:
    results: dict[str, Result] = {}
    for result in sorted(run.results, key=lambda one: GRAVITY.index(verdict_of(one))):
        results.setdefault(result.scenario, result)
    for promise in findings.promises:
        if promise.id in results:
            required = not promise.against and not (findings.pre and promise.node_only)
            yield _entry(results.pop(promise.id), required=required)
        else:
            yield _absent(promise, run, findings)
    yield from map(_entry, results.values())


def _entry(result: Result, *, required: bool = True) -> Entry:
    outcome = _OUTCOMES[verdict_of(result)]
    if outcome == "skip" and result.unable and required:
        outcome = "not-run"
    return Entry(
        id=line(result.scenario),
        title=line(result.title),
        level="extended" if result.level == "extended" else "core",
        source=line(result.source_url),
        outcome=outcome,
        reason=line(result.failure.rule if result.failure else result.reason),
        seconds=result.seconds,
    )


def _absent(promise: Promise, run: Run, findings: Findings) -> Entry:
    if promise.against:
        reason = promise.against
    elif promise.level == "extended" and findings.level == "core":
        reason = "the extended level was not asked for"
    elif findings.narrowed:
        reason = f"not selected: the run was narrowed to {line(findings.narrowed)}"
    else:
        reason = "the run ended before it" if run.cut_off else "the run has no result for it"
    return Entry(
        id=promise.id,
        title=promise.title,
        level=promise.level,
        source=promise.source,
        outcome="skip" if promise.against else "not-run",
        reason=reason,
        evidence=False,
    )


def profile_of(level: Level, entries: Iterable[Entry], *, release: str, claimed: bool) -> Profile:
    counts = Counter(entry.outcome for entry in entries if entry.level == level)
    return Profile(
        name=level,
        release=release,
        apply=sum(counts.values()) - counts["skip"],
        kept=counts["pass"],
        broken=counts["fail"],
        unknown=counts["unknown"],
        not_run=counts["not-run"],
        skipped=counts["skip"],
        claimed=claimed,
    )


def _subjects(findings: Findings) -> list[Descriptor]:
    kubelet, machine = findings.kubelet, findings.machine
    return _descriptors(
        (f"kubelet {kubelet.version}", kubelet.digest), (f"machine {machine.name}", machine.digest)
    )


def _configuration(findings: Findings, stream: str, digest: Digest) -> list[Descriptor]:
    return _descriptors(
        ("KubeletConfiguration", findings.configuration.digest),
        (f"pinproof {findings.suite.pinproof} catalogue", findings.suite.catalogue),
        (stream, digest),
    )


def _descriptors(*things: tuple[str, Digest]) -> list[Descriptor]:
    """Without a digest a thing has no descriptor: in-toto requires one."""
    return [
        Descriptor(name=line(name), digest={"sha256": digest.removeprefix("sha256:")})
        for name, digest in things
        if digest
    ]


def _cleaned(record: T) -> T:
    """The record with every text as one clean line: a node's text need not be UTF-8."""
    changes: dict[str, object] = {}
    for name, value in msgspec.structs.asdict(record).items():
        if isinstance(value, str):
            changes[name] = line(value)
        elif isinstance(value, dict):
            changes[name] = {_text(key): _text(one) for key, one in value.items()}
    return msgspec.structs.replace(record, **changes)


def _text(value: object) -> object:
    return line(value) if isinstance(value, str) else value


def _time(text: str, later: timedelta = timedelta()) -> str:
    moment = utc(text)
    return (moment + later).isoformat(timespec="seconds") if moment else ""
