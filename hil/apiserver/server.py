"""An API server, as its kubeconfig names it: requests bounded in time and size, answers as JSON.

What belongs here: the client library; only its exceptions are used elsewhere
(:mod:`hil.apiserver.explaining`). What never does: what is asked for
(:mod:`hil.pods.apiserver.pods`, :mod:`hil.transport.kube.pod`).

Answers are read as plain JSON: the library's own types refuse those of a server of another release.
"""

from __future__ import annotations

import contextlib
import json
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hil.apiserver.errors import Refused
from hil.apiserver.tunnel import Declined, Tunnel, opened
from hil.shell import NodeTimeout, NodeUnfit, NodeUnreachable, NodeUsageError
from topologies.errors import one_line

if TYPE_CHECKING:
    from kubernetes.client import CoreV1Api

_CONNECT: Final = 10.0
_READ: Final = 20.0
_DEADLINE: Final = 60.0
#: A node's pods are at most a few megabytes.
_LIMIT: Final = 32 << 20
_CHUNK: Final = 1 << 16
_LARGEST: Final = 1 << 20
_NOT_FOUND: Final = 404
#: How often a busy server is asked again, and the most seconds that it may ask to wait.
_BUSY: Final = 3
_WAIT: Final = 10


class Server:
    """An API server. May be used by several threads; :meth:`close` ends its connections."""

    def __init__(self, url: str, core: CoreV1Api) -> None:
        """Use :meth:`of`."""
        self.url = url
        #: Requests so far.
        self.requests = 0
        self._core = core
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def of(cls, kubeconfig: Path, context: str = "") -> Server:
        """The server of the kubeconfig's current context, or of another; no request is made yet,
        but a credential plugin that the kubeconfig names is run. Raises
        :class:`hil.shell.NodeUsageError`."""
        _require_file(kubeconfig)
        try:
            from kubernetes import client
        except ImportError:
            raise NodeUsageError(
                f"{_shown(kubeconfig)}: a kubeconfig needs the Kubernetes client: "
                "pip install 'pinproof[kubeconfig]'"
            ) from None
        folder = _SECRETS.folder()
        try:
            settings = _settings(kubeconfig, context, folder)
            return cls(settings.host, client.CoreV1Api(client.ApiClient(settings)))
        except BaseException:
            _SECRETS.release()
            raise

    def ask(self, method: str, what: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a method of the library's ``CoreV1Api``; the answer as JSON. ``what`` is being done,
        as errors name it. Raises what :mod:`hil.apiserver` lists."""
        import urllib3.exceptions
        from kubernetes.client.exceptions import OpenApiException

        from hil.apiserver.explaining import as_node_error

        call: Callable[..., Any] = getattr(self._core, method)
        try:
            with self._lock:
                self.requests += 1
                answer = call(
                    **arguments, _preload_content=False, _request_timeout=(_CONNECT, _READ)
                )
                text = _read(answer, f"{self.url}: cannot {what}")
        except (OpenApiException, urllib3.exceptions.HTTPError, OSError) as error:
            raise as_node_error(error, self.url, what) from error
        return _object(text, f"{self.url}: cannot {what}")

    def ask_if_there(self, method: str, what: str, /, **arguments: Any) -> dict[str, Any] | None:
        """As :meth:`ask`, for an object that may not exist; then ``None``."""
        try:
            return self.ask(method, what, **arguments)
        except Refused as error:
            if error.code == _NOT_FOUND:
                return None
            raise

    def tunnel(self, path: str, what: str, upgrade: Mapping[str, str]) -> Tunnel:
        """A connection that the server upgrades to another protocol, as the headers ``upgrade``
        ask. ``what`` is being done, as errors name it. A failure behind the server is
        :class:`hil.shell.NodeUnreachable`; else raises what :mod:`hil.apiserver` lists."""
        from kubernetes.client.exceptions import ApiException

        from hil.apiserver.explaining import as_node_error

        auth: dict[str, str] = {}
        client: Any = self._core.api_client
        client.update_params_for_auth(auth, [], ["BearerToken"], path, "GET", None)
        try:
            return opened(client.configuration, auth, path, upgrade, _READ)
        except Declined as declined:
            answer = ApiException(status=declined.status)
            answer.body = declined.body
            error = as_node_error(answer, self.url, what)
            gone = declined.behind or declined.status == _NOT_FOUND
            raise NodeUnreachable(str(error)) if gone else error from declined
        except (NodeUnreachable, NodeTimeout) as error:
            raise type(error)(f"{self.url}: cannot {what}: {error}") from error

    def close(self) -> None:
        """Close connections, and remove credentials. May be called twice."""
        if not self._closed:
            self._closed = True
            self._core.api_client.close()
            _SECRETS.release()


class _Secrets:
    """The folder of credentials that kubeconfigs hold as text, and the library writes into files.
    The library reuses these files for the whole process, so all servers share the folder; the last
    one removes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def folder(self) -> str:
        with self._lock:
            self._users += 1
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(
                    prefix="pinproof-", ignore_cleanup_errors=True
                )
            return self._folder.name

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._folder is not None:
                self._folder.cleanup()
                self._folder = None


_SECRETS: Final = _Secrets()


def _read(answer: Any, what: str) -> bytes:
    until = time.monotonic() + _DEADLINE
    text = bytearray()
    try:
        for chunk in answer.stream(_CHUNK):
            text += chunk
            if len(text) > _LIMIT:
                raise NodeTimeout(f"{what}: the answer is longer than {_LIMIT >> 20} MiB")
            if time.monotonic() > until:
                raise NodeTimeout(f"{what}: the answer takes longer than {_DEADLINE:g} s")
    finally:
        answer.close()  # a connection that was read to its end is in its pool already
    return bytes(text)


def _object(text: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        start = one_line(text[:80].decode("utf-8", "replace"))
        raise NodeUnfit(f"{what}: the answer is not from an API server: {start}")
    return found


def items(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The objects of a list; anything else in it is ignored."""
    found = answer.get("items") or []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def metadata(thing: Mapping[str, Any]) -> dict[str, Any]:
    """An object's metadata; empty where it has none."""
    found = thing.get("metadata")
    return found if isinstance(found, dict) else {}


def _require_file(path: Path) -> None:
    try:
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except OSError as error:
        raise NodeUsageError(f"kubeconfig {_shown(path)}: {error.strerror}") from error
    if size > _LARGEST:
        raise NodeUsageError(f"kubeconfig {_shown(path)}: the file is too large for a kubeconfig")
    if ":" in str(path):
        raise NodeUsageError(
            f"kubeconfig {_shown(path)}: it names several files, separated by a colon; name one"
        )


def _settings(path: Path, context: str, secrets: str) -> Any:
    import urllib3
    import yaml
    from kubernetes import client
    from kubernetes.config import ConfigException, load_kube_config

    settings = client.Configuration()
    load: Callable[..., None] = load_kube_config
    try:
        with _logged_errors() as complaints:
            load(
                str(path),
                context=context or None,
                client_configuration=settings,
                persist_config=False,  # the file is the user's
                temp_file_path=secrets,
            )
    except ConfigException as error:
        raise _no_kubeconfig(path, str(error)) from error
    except yaml.YAMLError as error:
        raise _no_kubeconfig(path, f"not YAML: {getattr(error, 'problem', error)}") from error
    except (ValueError, TypeError, AttributeError, KeyError, OSError, RecursionError) as error:
        reason = f"it is not the YAML of a kubeconfig ({type(error).__name__}: {error})"
        raise _no_kubeconfig(path, reason) from error
    if complaints:
        raise _no_kubeconfig(path, complaints[0])
    if not settings.host.startswith(("https://", "http://")):
        raise _no_kubeconfig(path, f"{settings.host!r} is not a server: https://HOST:PORT")
    # One retry where an idle connection was closed; never of a request that creates something.
    settings.retries = urllib3.Retry(
        connect=0, read=1, redirect=0, other=0, status=_BUSY, retry_after_max=_WAIT
    )
    return settings


@contextlib.contextmanager
def _logged_errors() -> Iterator[list[str]]:
    """Collect the errors that the library only logs: that a credential plugin failed."""
    errors: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.ERROR and record.module == "kube_config":
                errors.append(record.getMessage())

    handler = Collector()
    logging.getLogger().addHandler(handler)
    try:
        yield errors
    finally:
        logging.getLogger().removeHandler(handler)


def _no_kubeconfig(path: Path, reason: str) -> NodeUsageError:
    reason = " ".join(reason.removeprefix("Invalid kube-config file. ").split())
    return NodeUsageError(f"kubeconfig {_shown(path)}: {one_line(reason, limit=300)}")


def _shown(path: Path) -> str:
    return one_line(str(path))
