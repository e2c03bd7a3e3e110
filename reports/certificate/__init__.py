"""Certificates: made of a run, written as JSON and as a page, and checked.

statement = make(run, findings, stream)     # of reports.run and what is known of the node
(folder / "certificate.json").write_bytes(encode(statement))
(folder / "certificate.html").write_text(html(statement))
checks(read(data), here, stream)            # what `pinproof verify` says
"""

from reports.certificate.checking import Answer, Check, Here, checks, read
from reports.certificate.document import CertificateError, Statement, encode
from reports.certificate.face import html
from reports.certificate.making import Findings, Promise, make
from reports.certificate.upgrading import upgrade_of

__all__ = [
    "Answer", "CertificateError", "Check", "Findings", "Here", "Promise", "Statement", "checks",
    "encode", "html", "make", "read", "upgrade_of",
]  # fmt: skip
