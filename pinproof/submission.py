"""``pinproof submission``: results that a vendor sends in: made, checked, listed.

What belongs here: the commands. What never does: the form (:mod:`reports.submission`), and how a
certificate is checked (``verify``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from conformance.subject import SubjectUsageError, usable
from conformance.verdict import ExitStatus
from pinproof.output import note
from pinproof.parameters import argument, option, with_options
from pinproof.verify import checked
from reports.certificate import Answer, CertificateError, Statement, read
from reports.certificate.document import digest_of
from reports.submission import (
    FILES,
    Row,
    Submission,
    SubmissionError,
    contents,
    name_of,
    parse,
    readme,
    rows,
    table,
    write,
)
from reports.submission.document import REQUIRED
from reports.text import few, line

app = typer.Typer(no_args_is_help=True)

_CERTIFICATE, _STREAM, _README = "certificate.json", "result.jsonl", "README.md"
_OF_CERTIFY: Final = ("certificate.json.sig", "certificate.json.sigstore.json")


@dataclass(frozen=True, slots=True)
class Made:
    certificate: Path = argument("The folder of a certificate.", metavar="FOLDER")
    output: Path = option(
        Path("submissions"), "Write below this folder.", "--output", "-o", metavar="FOLDER"
    )
    vendor: str = option("", "Who submits.", metavar="NAME")
    product: str = option("", "The name of the product.", metavar="NAME")
    product_version: str = option("", "The version of the product.", metavar="VERSION")
    website: str = option("", "The product's https address.", metavar="URL")
    contact: str = option("", "An e-mail or https address.", metavar="ADDRESS")


@app.command("new", epilog="Example: pinproof submission new certificate/node7 --vendor Example")
@with_options
def new(made: Made) -> None:
    """Make the folder of a submission from that of a certificate, as v1.36/VENDOR-PRODUCT.

    Its README.md begins with a table that repeats the certificate; add below it what readers have
    to know about the product and the run.
    """
    try:
        data = (made.certificate / _CERTIFICATE).read_bytes()
        statement = read(data)
        submission = parse(write(_submission(made, data, statement)))
    except OSError as error:
        raise SubjectUsageError(f"{made.certificate / _CERTIFICATE}: {error.strerror}") from error
    except CertificateError as error:
        raise SubjectUsageError(f"{made.certificate / _CERTIFICATE}: {line(str(error))}") from error
    except SubmissionError as error:
        raise SubjectUsageError(f"not a submission: {line(str(error))}") from error
    folder = made.output / f"v{statement.facts.kubelet.release}"
    folder /= name_of(submission.vendor, submission.product)
    with usable(folder):
        folder.mkdir(parents=True)
        (folder / _CERTIFICATE).write_bytes(data)
        for name in (_STREAM, *_OF_CERTIFY):
            if (made.certificate / name).is_file():
                (folder / name).write_bytes((made.certificate / name).read_bytes())
        (folder / "submission.json").write_bytes(write(submission))
        (folder / _README).write_text(readme(submission, statement, _TEXT), encoding="utf-8")
    typer.echo(folder)


_TEXT: Final = "TODO: write what readers have to know about the product and the run."


def _submission(made: Made, data: bytes, statement: Statement) -> Submission:
    return Submission(
        vendor=made.vendor,
        product=made.product,
        version=made.product_version,
        website=made.website,
        contact=made.contact,
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        certificate=digest_of(data),
        stream=statement.facts.evidence.digest,
    )


@app.command("check", epilog="Example: pinproof submission check submissions/v1.36/example-kubelet")
def check(
    folders: Annotated[list[Path], typer.Argument(help="Submissions.", metavar="FOLDER...")],
) -> None:
    """Check submissions: names, sizes, schema, digests, and that README, certificate and result
    stream agree.

    Exit status 0: nothing is wrong; 1: a submission is refused, and a line names the file and the
    line at fault.
    """
    refused = False
    for folder in folders:
        try:
            row = row_of(folder)
        except SubmissionError as error:
            refused = True
            note(f"pinproof: {folder}: {line(str(error))}")
        else:
            facts = row.statement.facts
            typer.echo(f"{folder}: {facts.kind} of kubelet {facts.kubelet.version}: ok")
    raise typer.Exit(int(ExitStatus.NOT_CONFORMANT if refused else ExitStatus.CONFORMANT))


@app.command("table", epilog="Example: pinproof submission table submissions")
def show_table(
    folder: Annotated[Path, typer.Argument(help="The folder of all releases.", metavar="FOLDER")],
) -> None:
    """Print the table of all submissions in a folder, as Markdown. Each is checked first.

    Exit status 1: a submission is refused; 2: there is none.
    """
    places = sorted(one for one in folder.glob("v*/*") if one.is_dir())
    if not places:
        raise SubjectUsageError(f"{folder}: there is no submission, as v1.36/VENDOR-PRODUCT")
    found: list[Row] = []
    for place in places:
        try:
            found.append(row_of(place, folder))
        except SubmissionError as error:
            note(f"pinproof: {place}: {line(str(error))}")
            raise typer.Exit(int(ExitStatus.NOT_CONFORMANT)) from error
    typer.echo(table(found), nl=False)


def row_of(folder: Path, above: Path | None = None) -> Row:
    """The submission in this folder. Raises :class:`SubmissionError`."""
    files = contents(folder, FILES)
    for name in REQUIRED:
        if name not in files:
            raise SubmissionError(f"{name} is missing")
    submission = parse(files["submission.json"])
    if digest_of(files[_CERTIFICATE]) != submission.certificate:
        raise SubmissionError(f"submission.json{_at(files, 'certificate')}: the digest of "
                              f"{_CERTIFICATE} is {digest_of(files[_CERTIFICATE])}")  # fmt: skip
    statement = _certificate(folder, submission, files)
    _require_place(folder, submission, statement)
    _require_readme(files[_README], submission, statement)
    certified = statement.facts.finished[:10]
    if submission.date < certified:
        raise SubmissionError(f"submission.json{_at(files, 'date')}: {submission.date}: the "
                              f"certificate is of {certified}")  # fmt: skip
    return Row(str(folder.relative_to(above)) if above else folder.name, submission, statement)


def _certificate(folder: Path, submission: Submission, files: dict[str, bytes]) -> Statement:
    """The certificate, checked with the stream. Raises :class:`SubmissionError`."""
    at = _day(submission, files)
    stream = folder / _STREAM if _STREAM in files else None
    try:
        statement, found = checked(folder / _CERTIFICATE, stream, None, at=at)
    except CertificateError as error:
        raise SubmissionError(f"{_CERTIFICATE}: {error}") from error
    if statement.facts.evidence.digest != submission.stream:
        raise SubmissionError(f"submission.json{_at(files, 'stream')}: the certificate was made "
                              f"from {statement.facts.evidence.digest}")  # fmt: skip
    if stream is not None and digest_of(files[_STREAM]) != submission.stream:
        raise SubmissionError(f"{_STREAM}: its digest is {digest_of(files[_STREAM])}, and the "
                              f"certificate names {submission.stream}")  # fmt: skip
    wrong = [f"{one.what}: {one.detail}" for one in found if one.answer is Answer.WRONG]
    if wrong:
        raise SubmissionError(f"{_CERTIFICATE}: {few(wrong, 3)}")
    return statement


def _day(submission: Submission, files: dict[str, bytes]) -> datetime:
    try:
        return datetime.fromisoformat(f"{submission.date}T23:59:59+00:00")
    except ValueError as error:
        where = f"submission.json{_at(files, 'date')}"
        raise SubmissionError(f"{where}: {submission.date}: {error}") from error


def _require_place(folder: Path, submission: Submission, statement: Statement) -> None:
    own = folder.resolve()
    release, name = (
        f"v{statement.facts.kubelet.release}",
        name_of(submission.vendor, submission.product),
    )
    if (own.parent.name, own.name) != (release, name):
        raise SubmissionError(f"the folder has to be {release}/{name}")


def _require_readme(data: bytes, submission: Submission, statement: Statement) -> None:
    """Every row of the table once, and as the certificate says it."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SubmissionError(f"{_README}: not UTF-8") from error
    seen: dict[str, tuple[int, str]] = {}
    for number, key, value in _rows_of(text):
        seen.setdefault(key, (number, value))
    for number, each in enumerate(text.splitlines(), start=1):
        if each == _TEXT:
            raise SubmissionError(f"{_README}:{number}: {each.removeprefix('TODO: ')}")
    for key, value in rows(submission, statement):
        number, said = seen.get(key, (0, ""))
        if not number:
            raise SubmissionError(f"{_README}: the row `| {key} | {value} |` is missing")
        if said != value:
            raise SubmissionError(f"{_README}:{number}: {key}: {said!r}, and the certificate says "
                                  f"{value!r}")  # fmt: skip


def _rows_of(text: str) -> Iterator[tuple[int, str, str]]:
    for number, one in enumerate(text.splitlines(), start=1):
        if row := re.fullmatch(r"\| ([^|]+) \| ([^|]*) \|", one.strip()):
            yield number, row[1], row[2]


def _at(files: dict[str, bytes], field: str) -> str:
    """``:8``, the line of a field of submission.json."""
    lines = files["submission.json"].splitlines()
    key = f'"{field}"'.encode()
    return next((f":{at}" for at, one in enumerate(lines, start=1) if key in one), "")
