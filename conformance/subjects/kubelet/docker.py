"""A fake Docker for kubelets of 1.19 to 1.23.

At the kubelet's start cAdvisor asks Docker for its root folder, whatever the container runtime is.
Without an answer it asks five times, a second apart, and then uses a default. This Docker answers
with that default, and has no version, so that cAdvisor does not use it as a runtime. Source:
``RootDir`` and ``ValidateInfo``, cAdvisor ``container/docker``, v0.37.5 to v0.43.1.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Final

__all__ = ["FakeDocker"]

_API: Final = "1.40"
#: By the end of a path, which begins with the API's version.
_ANSWERS: Final = {
    "/_ping": {},
    "/info": {"DockerRootDir": "/var/lib/docker"},
    "/version": {"ApiVersion": _API},
}


class FakeDocker:
    """Answers on a unix socket until it is closed. Raises ``OSError`` if it cannot listen."""

    def __init__(self, socket_path: Path) -> None:
        self._server = _Server(str(socket_path), _Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = next((_ANSWERS[end] for end in _ANSWERS if self.path.endswith(end)), None)
        body = json.dumps(answer).encode()
        self.send_response(200 if answer is not None else 404)
        self.send_header("Api-Version", _API)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
