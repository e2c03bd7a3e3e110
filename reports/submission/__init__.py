"""Submissions: results that a vendor sends in, as a folder that can be checked.

    submissions/v1.36/VENDOR-PRODUCT/
        submission.json     who submits what (:class:`Submission`)
        README.md           for people; its first table repeats the certificate
        certificate.json    of ``pinproof certify``
        result.jsonl        the result stream that the certificate was made from

What belongs here: the form, and whether the files agree. What never does: whether a certificate is
right (:mod:`reports.certificate`).
"""

from reports.submission.document import FILES, Submission, name_of, parse, readme, rows, write
from reports.submission.folder import SubmissionError, contents
from reports.submission.table import Row, table

__all__ = [
    "FILES", "Row", "Submission", "SubmissionError", "contents", "name_of", "parse", "readme",
    "rows", "table", "write",
]  # fmt: skip
