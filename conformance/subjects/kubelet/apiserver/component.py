"""A program of the control plane beside the API server, in its own sandbox."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from conformance.kubelets import configuration as kubelet_config
from conformance.subject import SubjectLostError, SubjectSetupError
from conformance.subjects.kubelet.apiserver.bridge import Bridge
from conformance.subjects.kubelet.apiserver.server import PORT, APIServer
from conformance.subjects.kubelet.bell import Bell
from conformance.subjects.kubelet.sandbox import Sandbox

#: Options of each program. Leader election is off, since there is only one of each.
_WORDS: Final = ("--leader-elect=false", "--secure-port=0")


class Component:
    """Starts ``program``, called ``name``, for a running API server. It works about a second later.
    ``words`` are further options. Raises :class:`SubjectSetupError`."""

    def __init__(
        self, name: str, program: Path, server: APIServer, words: Sequence[str] = ()
    ) -> None:
        self.name = name
        self._sandbox = Sandbox(Bell())
        self._sandbox.await_birth()
        self._bridge: Bridge | None = None
        try:
            self._start([str(program), *_WORDS, *words], server)
        except SubjectLostError as error:
            self.close()
            raise SubjectSetupError(f"no {name}: {error}") from error
        except BaseException:
            self.close()
            raise

    def _start(self, argv: Sequence[str], server: APIServer) -> None:
        listener = self._sandbox.socket()
        listener.bind(("127.0.0.1", PORT))
        self._bridge = Bridge(listener, server.connect)
        self._sandbox.write(kubelet_config.KUBECONFIG, server.kubeconfig(), mode=0o600)
        argv = [*argv, f"--kubeconfig={kubelet_config.KUBECONFIG}"]
        self._sandbox.start(argv, dict(os.environ))

    @property
    def pid(self) -> int:
        return self._sandbox.pid

    @property
    def error(self) -> str:
        """Why the program has ended; ``""`` while it runs."""
        if self._sandbox.running:
            return ""
        log = self._sandbox.log
        return (log and log.gave_up_because()) or "its log does not say why"

    def close(self) -> None:
        """End the program, and wait until its sandbox is gone."""
        if self._bridge is not None:
            self._bridge.close()
        self._sandbox.close()
