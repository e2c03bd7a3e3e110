"""The form of a submission: who submits what, and the table of its README.

The JSON Schema beside this module is made from these types (:mod:`reports.submission.schema`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from reports.certificate import Statement
from reports.submission.folder import SubmissionError
from reports.text import line

#: Every file that a folder may have, with the most bytes of each; the first three are required.
FILES: Final = {
    "submission.json": 16 << 10,
    "README.md": 64 << 10,
    "certificate.json": 16 << 20,
    "result.jsonl": 64 << 20,
    "certificate.json.sig": 64 << 10,
    "certificate.json.sigstore.json": 1 << 20,
}
REQUIRED: Final = ("submission.json", "README.md", "certificate.json")

_WORDS: Final = r"^[^\x00-\x1f\x7f|<>\[\]`\\]{1,80}$"
Words = Annotated[str, msgspec.Meta(pattern=_WORDS)]
Address = Annotated[str, msgspec.Meta(pattern=r"^https://[^\s|<>()\[\]`\\]{1,200}$")]
Contact = Annotated[
    str,
    msgspec.Meta(pattern=r"^(https://[^\s|<>()\[\]`\\]{1,200}|[^\s@|<>]{1,64}@[^\s@|<>]{1,128})$"),
]
Date = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$")]
Digest = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}$")]


class Submission(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Who submits what. ``version`` is that of the product, ``date`` the day of the submission,
    ``contact`` an e-mail or https address. ``certificate`` and ``stream`` are the SHA-256 of
    certificate.json and of the result stream that it was made from."""

    vendor: Words
    product: Words
    version: Words
    website: Address
    contact: Contact
    date: Date
    certificate: Digest
    stream: Digest


def parse(data: bytes) -> Submission:
    """What submission.json says. Raises :class:`SubmissionError` with the line at fault."""
    try:
        return msgspec.json.decode(data, type=Submission)
    except msgspec.ValidationError as error:
        raise SubmissionError(f"submission.json{_line_of(data, str(error))}: {error}") from error
    except msgspec.DecodeError as error:
        raise SubmissionError(f"submission.json: not JSON: {error}") from error


def _line_of(data: bytes, error: str) -> str:
    """``:4`` for the line of the field that an error names; ``""`` where it names none."""
    named = re.search(r"\$\.(\w+)|unknown field `([^`]+)`", error)
    if named is None:
        return ""
    key = json.dumps(named[1] or named[2]).encode()
    lines = data.splitlines()
    return next((f":{at}" for at, text in enumerate(lines, start=1) if key in text), "")


def write(submission: Submission) -> bytes:
    return msgspec.json.format(msgspec.json.encode(submission), indent=2) + b"\n"


def name_of(vendor: str, product: str) -> str:
    """The folder's name: ``VENDOR-PRODUCT`` in small letters, digits and dashes."""
    return "-".join(re.sub(r"[^a-z0-9]+", "-", one.lower()).strip("-") for one in (vendor, product))


def rows(submission: Submission, statement: Statement) -> Iterator[tuple[str, str]]:
    """What the first table of README.md says, row by row."""
    facts = statement.facts
    yield "vendor", submission.vendor
    yield "product", f"{submission.product} {submission.version}"
    yield "kubelet", line(facts.kubelet.version)
    yield "machine", line(facts.machine.name)
    yield "kind", facts.kind
    yield "verdict", facts.verdict
    for one in facts.profiles:
        if one.claimed:
            counts = f"{one.kept} kept, {one.broken} broken, {one.unknown + one.not_run} open"
            yield f"{one.name} profile", f"{counts}, of {one.apply} that apply"
    yield "certified", facts.finished[:10]


def readme(submission: Submission, statement: Statement, text: str) -> str:
    """README.md: title, table, and what the vendor says."""
    table = "\n".join(f"| {key} | {value} |" for key, value in rows(submission, statement))
    release = statement.facts.kubelet.release
    title = f"# {submission.vendor} {submission.product} on Kubernetes {release}"
    return f"{title}\n\n| | |\n| --- | --- |\n{table}\n\n{text.strip()}\n"
