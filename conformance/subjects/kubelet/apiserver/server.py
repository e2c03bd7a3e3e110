"""The API server as two programs in a sandbox, and requests to it.

What belongs here: starting both programs, waiting for them, and one request in JSON. What never
does: nodes and pods (:mod:`conformance.subjects.kubelet.apiserver.pods`).
"""

from __future__ import annotations

import atexit
import base64
import http.client
import itertools
import json
import os
import secrets
import socket
import ssl
import threading
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from conformance.kubelets.apiservers import Programs
from conformance.kubelets.manifests import HIGH_CLASS
from conformance.subject import SubjectLostError, SubjectSetupError
from conformance.subjects.kubelet.bell import Bell
from conformance.subjects.kubelet.sandbox import AREA, Sandbox
from reference.pods.pod import HIGH_PRIORITY

PORT: Final = 6443
_ETCD: Final = "http://127.0.0.1:2379"
_PEER: Final = "http://127.0.0.1:2380"
_TOKENS: Final = f"{AREA}/tokens.csv"
#: For the certificate that the API server makes at its start. Its key also signs service accounts:
#: the option needs a key, and no pod here has an account.
_CERTIFICATES: Final = f"{AREA}/certificates"
#: In seconds. The start takes 3 s; on a busy host much longer.
_PATIENCE: Final = 90.0
_ANSWER: Final = 15.0
#: Seconds. A look is cheap until the server listens.
_LOOK: Final = 0.05
#: What the server creates by itself before it can be used; critical pods have this priority class.
_MADE: Final = (
    "/api/v1/namespaces/default",
    "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
)
#: Starts etcd in the background: a sandbox runs one program, and ends its children with it.
_BOTH: Final = f"""\
cd "$1" && "$2" --data-dir=etcd --unsafe-no-fsync --log-level=error \
  --listen-client-urls={_ETCD} --advertise-client-urls={_ETCD} \
  --listen-peer-urls={_PEER} --initial-advertise-peer-urls={_PEER} \
  --initial-cluster=default={_PEER} &
shift 2 && exec "$@"
"""


class APIServer:
    """An API server, started when it is first needed. ``token`` is that of a user with every right;
    only the run's sandboxes reach the port. ``prefix`` begins the names of its nodes.

    ``user_namespace`` is passed to :class:`Sandbox`.
    """

    def __init__(self, programs: Programs, *, user_namespace: bool = False) -> None:
        self.token = secrets.token_hex(16)
        self.prefix = "pinproof-"
        self._programs = programs
        self._user_namespace = user_namespace
        self._sandbox: Sandbox | None = None
        self._numbers = itertools.count(1)
        self._starting = threading.Lock()

    @property
    def running(self) -> bool:
        """Whether it runs. It is false as soon as the server has ended."""
        return self._sandbox is not None and self._sandbox.running

    def start(self) -> None:
        """Start it if it does not run, and wait until it serves. Raises
        :class:`SubjectSetupError`."""
        with self._starting:
            if not self.running:
                self.close()
                self._start()

    def interrupt(self) -> None:
        """End it without waiting for the end; a thread that waits for its start stops waiting."""
        sandbox = self._sandbox
        if sandbox is not None:
            sandbox.end()

    def close(self) -> None:
        """End it, and wait until its sandbox is gone. So does the interpreter's exit. May be called
        twice."""
        atexit.unregister(self.close)
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            sandbox.close()

    def fresh_name(self) -> str:
        """A name for a node that this API server has not known."""
        return f"{self.prefix}{next(self._numbers)}"

    @property
    def pid(self) -> int:
        """See :attr:`Sandbox.pid`; 0 if it does not run."""
        return 0 if self._sandbox is None else self._sandbox.pid

    def kubeconfig(self, port: int = PORT) -> str:
        """The kubeconfig of a client that reaches it at this port of the client's loopback (JSON,
        which is YAML). Raises :class:`SubjectLostError` if it does not run."""
        cluster = {
            "server": f"https://127.0.0.1:{port}",
            "certificate-authority-data": base64.b64encode(self._certificate()).decode(),
        }
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "pinproof",
            "clusters": [{"name": "pinproof", "cluster": cluster}],
            "users": [{"name": "pinproof", "user": {"token": self.token}}],
            "contexts": [
                {"name": "pinproof", "context": {"cluster": "pinproof", "user": "pinproof"}}
            ],
        }
        return json.dumps(content, indent=1) + "\n"

    def _certificate(self) -> bytes:
        if self._sandbox is None:
            raise SubjectLostError("the API server was ended")
        return self._sandbox.path(f"{_CERTIFICATES}/apiserver.crt").read_bytes()

    def connect(self) -> socket.socket:
        """A TCP connection to it, before TLS. Raises ``OSError`` and :class:`SubjectLostError`."""
        if self._sandbox is None:
            raise SubjectLostError("the API server was ended")
        connection = self._sandbox.socket()
        try:
            connection.settimeout(_ANSWER)
            connection.connect(("127.0.0.1", PORT))
        except OSError:
            connection.close()
            raise
        return connection

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        form: str = "application/json",
    ) -> dict[str, Any]:
        """Send a request; ``form`` is the body's content type. Raises :class:`SubjectLostError` if
        the server refuses it or does not answer."""
        try:
            status, answer = self._answer(method, path, body, form)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise SubjectLostError(f"the API server does not answer: {error}") from error
        if status >= HTTPStatus.BAD_REQUEST:
            raise SubjectLostError(
                f"the API server refuses {method} {path}: {answer.get('message', status)}"
            )
        return answer

    def _answer(
        self, method: str, path: str, body: Mapping[str, Any] | None, form: str
    ) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=_ANSWER)
        # The server makes its certificate at its start, and is alone in its network.
        connection.sock = ssl._create_unverified_context().wrap_socket(self.connect())  # noqa: S323
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": form}
        try:
            connection.request(
                method, path, json.dumps(body) if body is not None else None, headers
            )
            response = connection.getresponse()
            return response.status, dict(json.loads(response.read()))
        finally:
            connection.close()

    def _start(self) -> None:
        sandbox = Sandbox(Bell(), user_namespace=self._user_namespace)
        sandbox.await_birth()
        self._sandbox = sandbox
        atexit.register(self.close)
        try:
            sandbox.write(_TOKENS, f'{self.token},pinproof,pinproof,"system:masters"\n', mode=0o600)
            argv = ["/bin/sh", "-c", _BOTH, "sh", AREA, str(self._programs.etcd), *self._command()]
            sandbox.start(argv, dict(os.environ))
            up = sandbox.bell.until(self._serves_or_ended, _PATIENCE, slowest=_LOOK)
            if up and sandbox.running:
                made = {"metadata": {"name": HIGH_CLASS}, "value": HIGH_PRIORITY}
                self.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", made)
        except BaseException:
            self.close()
            raise
        if not up or not sandbox.running:
            why = sandbox.log.gave_up_because() if sandbox.log is not None else ""
            self.close()
            raise SubjectSetupError(f"the API server does not start: {why or 'no reason given'}")

    def _command(self) -> list[str]:
        key = f"{_CERTIFICATES}/apiserver.key"
        return [
            str(self._programs.apiserver),
            f"--etcd-servers={_ETCD}",
            "--bind-address=127.0.0.1",
            "--advertise-address=10.0.0.1",  # the server cannot derive it: the sandbox has no route
            f"--secure-port={PORT}",
            f"--cert-dir={_CERTIFICATES}",
            f"--token-auth-file={_TOKENS}",
            "--authorization-mode=AlwaysAllow",
            "--service-account-issuer=https://pinproof.invalid",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            # A controller makes service accounts, and there is none.
            "--disable-admission-plugins=ServiceAccount",
        ]

    def _serves_or_ended(self) -> bool:
        """The server serves once it has created :data:`_MADE`."""
        if not self.running:
            return True
        try:
            for made in _MADE:
                self.ask("GET", made)
        except SubjectLostError:
            return False
        return True
