"""``pinproof verify``: what a certificate says, checked as far as that can be done here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import typer

from conformance.catalogue import digest
from conformance.rejudging import machines_of, rejudged
from conformance.results import Header, ResultsError
from conformance.results import read as read_stream
from conformance.subject import SubjectUsageError
from conformance.verdict import ExitStatus
from pinproof.output import note, print_json
from pinproof.parameters import AsJson, argument, option, with_options
from pinproof.progress import busy
from pinproof.signing import BadSignature, signer, verify_with_cosign
from reports.certificate import Answer, CertificateError, Check, Here, Statement, checks, html, read
from reports.certificate.document import LARGEST
from reports.certificate.unit import compared
from reports.text import few, line
from topologies.steady import steady_digest

#: The reader's version of pinproof where its scenarios are not those of the certificate.
_LATER: Final = "another one"
_SIGNERS, _COSIGN = "--allowed-signers", "--cosign-key"


@dataclass(frozen=True, slots=True)
class Asked:
    certificate: Path = argument("A certificate.json, or its folder.")
    stream: Path | None = argument(
        "The result stream that it was made from: its verdicts are made again. Default for a "
        "folder: the stream that the certificate names, if it is there.",
        None,
    )
    allowed_signers: Path | None = option(
        None,
        "Who may sign (ssh-keygen(1), ALLOWED SIGNERS): the signature beside the certificate is "
        "checked.",
    )
    cosign_key: Path | None = option(None, "A public key of cosign: its signature is checked.")
    unit: str = option(
        "",
        "ssh://user@host, or an inventory (lab.toml#node7): is this node the one that was "
        "certified?",
        metavar="NODE",
    )
    as_json: AsJson = False


@with_options
def verify(asked: Asked) -> None:
    """Check a certificate: recompute what can be recomputed, and name what cannot.

    Exit status 0: nothing is wrong with it; 1: it was changed, contradicts itself or its result
    stream, has expired, is of another unit than --unit, or is not signed as asked. A certificate
    without a signature shows that it was not changed by accident; anyone could have written it.
    """
    folder = asked.certificate if asked.certificate.is_dir() else None
    certificate = folder / "certificate.json" if folder else asked.certificate
    try:
        statement, found = checked(certificate, asked.stream, folder)
    except CertificateError as error:
        note(f"pinproof: {certificate}: {line(str(error))}")
        raise typer.Exit(ExitStatus.NOT_CONFORMANT) from error
    found.append(_unit(statement, asked.unit))
    found.append(_signed("the signature", certificate, asked.allowed_signers, _SIGNERS))
    found.append(_signed("the signature of cosign", certificate, asked.cosign_key, _COSIGN))
    wrong = [one for one in found if one.answer is Answer.WRONG]
    if asked.as_json:
        rows = [{"what": o.what, "answer": o.answer.value, "detail": o.detail} for o in found]
        print_json({"verdict": statement.facts.verdict, "wrong": len(wrong), "checks": rows})
    else:
        _print(statement, found, signed=bool(asked.allowed_signers or asked.cosign_key))
    raise typer.Exit(ExitStatus.NOT_CONFORMANT if wrong else ExitStatus.CONFORMANT)


def checked(
    certificate: Path, stream: Path | None, folder: Path | None, *, at: datetime | None = None
) -> tuple[Statement, list[Check]]:
    """The certificate, and every question about it with its answer. ``at``: check it as of that
    day, even if this pinproof has other scenarios.

    Raises :class:`CertificateError` for what is not one, and :class:`SubjectUsageError`.
    """
    try:
        with certificate.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise SubjectUsageError(f"{certificate}: {error.strerror}{_advice(folder)}") from error
    if data.startswith(b'{"kind":'):
        raise SubjectUsageError(
            f"{certificate}: it is a result stream and no certificate; `pinproof certify` makes one"
        )
    if stream is not None and not stream.is_file():
        raise SubjectUsageError(f"{stream}: there is no such file")
    statement = read(data)
    stream = stream or _beside(statement, folder)
    here = Here(at or datetime.now(UTC), version("pinproof"), digest())
    if at is not None and statement.facts.suite.catalogue != here.catalogue:
        here = replace(here, pinproof=_LATER)
    found = [*checks(statement, here, stream)]
    if stream is not None:
        found += _observations(statement, stream, here)
    return statement, [*found, _page(certificate, statement)]


def _advice(folder: Path | None) -> str:
    """Where the certificate may be that ``folder`` lacks."""
    if folder is None:
        return ""
    below = sorted(folder.glob("*/certificate.json"))
    if below:
        return f"; there is {below[0]}"
    return "; `pinproof certify` makes certificates, and `pinproof run` makes none"


def _beside(statement: Statement, folder: Path | None) -> Path | None:
    """The result stream in the certificate's folder, if it is there. A name that leads out of the
    folder is ignored."""
    name = statement.facts.evidence.name
    if folder is None or name != Path(name).name or not (folder / name).is_file():
        return None
    return folder / name


def _observations(statement: Statement, stream: Path, here: Here) -> Iterator[Check]:
    """Judge again what was seen, as the stream has it."""
    what, facts = "the observations", statement.facts
    if facts.kind == "pre-certificate":
        yield Check(what, Answer.UNCHECKED, "only the stream of a real node has observations")
        return
    if (facts.suite.pinproof, facts.suite.catalogue) != (here.pinproof, here.catalogue):
        yield Check(what, Answer.UNCHECKED, "only the pinproof that made them can judge them")
        return
    try:
        yield _machine(statement, stream)
        again = list(rejudged(stream))
    except ResultsError as error:
        yield Check(what, Answer.WRONG, line(str(error)))
        return
    wrong = [f"{line(one.scenario)}: {line(one.wrong)}" for one in again if one.wrong]
    if wrong:
        yield Check(what, Answer.WRONG, few(wrong, 3))
    else:
        yield Check(what, Answer.OK, f"{len(again)} verdicts judged again from what was seen")


def _machine(statement: Statement, stream: Path) -> Check:
    """Is the node's tree in the stream that of the certificate's machine?"""
    what = "the machine's digests"
    header = next(iter(read_stream(stream)))
    assert isinstance(header, Header)
    found, said = machines_of(header).values(), statement.facts.machine
    if {(one.digest, steady_digest(one)) for one in found} == {(said.digest, said.hardware_digest)}:
        return Check(what, Answer.OK, said.digest)
    return Check(what, Answer.WRONG, "the result stream has the tree of another machine, or none")


def _page(certificate: Path, statement: Statement) -> Check:
    """The page beside the certificate: was it made from it?"""
    what, page = "the page beside it", certificate.with_suffix(".html")
    made_by = statement.facts.suite.pinproof
    if not page.is_file():
        return Check(what, Answer.UNCHECKED, f"there is no {page.name}")
    if made_by != version("pinproof"):
        return Check(what, Answer.UNCHECKED, f"needs pinproof {line(made_by)}")
    if page.read_bytes() == html(statement).encode():
        return Check(what, Answer.OK, page.name)
    return Check(what, Answer.WRONG, f"{page.name} was not made from this certificate")


def _unit(statement: Statement, place: str) -> Check:
    """Is the node at this place the certified one?"""
    what, unit = "the unit", statement.facts.unit
    if not place:
        return Check(what, Answer.UNCHECKED, "give --unit NODE")
    if not unit.digests:
        return Check(what, Answer.WRONG, "the certificate names none")
    said = compared(unit, _marks(place))
    return Check(what, Answer.OK if said.same else Answer.WRONG, line(str(said)))


def _marks(place: str) -> Mapping[str, str]:
    """The marks of one node. Raises :class:`SubjectUsageError` and :class:`hil.shell.NodeError`."""
    # What reaches nodes comes with an extra, and is not needed to check a certificate.
    from hil.inspection import marks
    from hil.transport import connected
    from hil.transport import nodes as addresses

    where, _, name = place.partition("#")
    found = [one for one in addresses(where) if name in ("", one.name)]
    if len(found) != 1:
        raise SubjectUsageError(f"--unit {place}: expected one node, found {len(found)}")
    with busy(found[0].name) as say:
        say("asking the node which one it is")
        with connected(found[0]) as shell:
            return marks(shell).values


def _signed(what: str, certificate: Path, keys: Path | None, option: str) -> Check:
    """Is the certificate signed as ``option`` asks?"""
    if keys is None:
        return Check(what, Answer.UNCHECKED, f"give {option} FILE")
    try:
        if option == _COSIGN:
            verify_with_cosign(certificate, keys)
            return Check(what, Answer.OK, f"by the key {keys}")
        return Check(what, Answer.OK, f"by {line(signer(certificate, keys))}")
    except BadSignature as error:
        return Check(what, Answer.WRONG, line(str(error)))


def _print(statement: Statement, found: list[Check], *, signed: bool) -> None:
    facts = statement.facts
    typer.echo(f"{facts.kind} of {line(facts.title)}: {facts.verdict}: {line(facts.words)}")
    for one in found:
        typer.echo(f"  {one.answer.value:<12} {one.what}: {one.detail}".removesuffix(": "))
    wrong = sum(one.answer is Answer.WRONG for one in found)
    if wrong:
        typer.echo(f"Do not trust it: {wrong} of {len(found)} checks failed.")
    elif signed:
        typer.echo("Nothing is wrong with it, and it is signed as asked.")
    else:
        typer.echo("Nothing is wrong with it. No signature was checked: anyone could have made it.")
