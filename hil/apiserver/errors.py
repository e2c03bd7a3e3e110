"""The error that an API server adds to those of every node (:mod:`hil.shell`)."""

from __future__ import annotations

from hil.shell import NodeUnfit


class Refused(NodeUnfit):
    """The server refused a request. ``code`` is the HTTP status, ``reason`` the API's reason
    (``Forbidden``, ``AlreadyExists``, ``Invalid``), ``""`` where it gave none."""

    def __init__(self, message: str, *, code: int, reason: str = "", evidence: str = "") -> None:
        super().__init__(message, evidence=evidence)
        self.code = code
        self.reason = reason
