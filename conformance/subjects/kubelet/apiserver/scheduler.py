"""A kube-scheduler before the API server, in a sandbox of its own."""

from __future__ import annotations

import os
from pathlib import Path

from conformance.kubelets import configuration as kubelet_config
from conformance.subjects.kubelet.apiserver.bridge import Bridge
from conformance.subjects.kubelet.apiserver.server import PORT, APIServer
from conformance.subjects.kubelet.bell import Bell
from conformance.subjects.kubelet.sandbox import Sandbox


class Scheduler:
    """The scheduler ``program``, started, of a server that runs. It takes a second until it binds
    pods. Raises :class:`SubjectSetupError`, and :class:`SubjectLostError` where it cannot be
    executed."""

    def __init__(self, program: Path, server: APIServer) -> None:
        self._sandbox = Sandbox(Bell())
        self._sandbox.await_birth()
        self._bridge: Bridge | None = None
        try:
            listener = self._sandbox.socket()
            listener.bind(("127.0.0.1", PORT))
            self._bridge = Bridge(listener, server.connect)
            self._sandbox.write(kubelet_config.KUBECONFIG, server.kubeconfig(), mode=0o600)
            self._sandbox.start(_command(program), dict(os.environ))
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """See :attr:`Sandbox.pid`."""
        return self._sandbox.pid

    @property
    def error(self) -> str:
        """Why it has ended; ``""`` while it runs."""
        if self._sandbox.running:
            return ""
        log = self._sandbox.log
        return (log and log.gave_up_because()) or "its log does not say why"

    def close(self) -> None:
        """End it, and wait until nothing of it is left."""
        if self._bridge is not None:
            self._bridge.close()
        self._sandbox.close()


def _command(program: Path) -> list[str]:
    return [
        str(program),
        f"--kubeconfig={kubelet_config.KUBECONFIG}",
        "--leader-elect=false",
        "--secure-port=0",
    ]
