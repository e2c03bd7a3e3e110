"""Errors of requests to an API server, in one line each.

Imported only where there is a client library.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any, Final

import urllib3.exceptions as http
from kubernetes.client.exceptions import ApiException

from hil.apiserver.errors import Refused
from hil.shell import NodeError, NodeTimeout, NodeUnreachable
from topologies.errors import one_line

_LONGEST: Final = 400
_UNAUTHORIZED: Final = 401
_TOO_MANY: Final = 429
#: Statuses of a server, or of a proxy before it, that does not work at the moment.
_AWAY: Final = (502, 503, 504)


def as_node_error(error: Exception, server: str, what: str) -> NodeError:
    """``error`` of the client library as a :class:`NodeError`. ``what`` was to be done: ``"create
    pod pinproof-a"``."""
    if isinstance(error, ApiException):
        return _answered(error, server, what)
    if isinstance(error, http.MaxRetryError) and error.reason is not None:
        error = error.reason
    if isinstance(error, http.SSLError):
        return _distrusted(server, error)
    if isinstance(error, http.ReadTimeoutError):
        return NodeTimeout(f"{server}: cannot {what}: no answer in time")
    # The library's texts have objects' addresses in them; the reason stands at their end.
    inner = error.args[-1] if error.args and isinstance(error.args[-1], Exception) else error
    reason = str(inner.__cause__ or inner).rpartition(">: ")[2].rpartition("): ")[2]
    return NodeUnreachable(f"{server}: cannot {what}: {_line(reason or str(inner))}")


def _answered(error: ApiException, server: str, what: str) -> NodeError:
    code = int(error.status or 0)
    if code == 0:  # the library's status for an error of TLS
        return _distrusted(server, error)
    said = _status(error.body)
    message = _line(str(said.get("message") or error.reason or "no reason given"))
    evidence = one_line(str(error.body or ""), limit=4000)
    if code == _UNAUTHORIZED:
        why = "it does not accept the kubeconfig's credentials (401 Unauthorized)"
        return Refused(f"{server}: cannot {what}: {why}", code=code, reason="Unauthorized")
    if code in _AWAY or code == _TOO_MANY:
        return NodeUnreachable(f"{server}: cannot {what}: {code}: {message}", evidence=evidence)
    reason = str(said.get("reason") or "")
    return Refused(
        f"{server}: cannot {what}: {message}", code=code, reason=reason, evidence=evidence
    )


def _distrusted(server: str, error: Exception) -> NodeUnreachable:
    reason = str(getattr(error, "reason", "") or error)
    detail = _line(reason.removeprefix("SSLError\n").partition(" (_ssl.c")[0].lstrip("("))
    return NodeUnreachable(
        f"{server}: the certificates of server and kubeconfig do not match: {detail}"
    )


def _status(body: object) -> dict[str, Any]:
    """The answer as the API's ``Status``; empty where it is something else (a proxy's page)."""
    if isinstance(body, str | bytes):
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(body)
            if isinstance(found, dict):
                return found
    return {}


def _line(text: str) -> str:
    return one_line(" ".join(text.split()), limit=_LONGEST)
