"""What an API server can do to us beside what every node can (:mod:`hil.shell`)."""

from __future__ import annotations

from hil.shell import NodeUnfit


class Refused(NodeUnfit):
    """The server answered, and said no. ``code`` is the status of HTTP, ``reason`` the API's word
    for it (``Forbidden``, ``AlreadyExists``, ``Invalid``), ``""`` where it gave none."""

    def __init__(self, message: str, *, code: int, reason: str = "", evidence: str = "") -> None:
        super().__init__(message, evidence=evidence)
        self.code = code
        self.reason = reason
