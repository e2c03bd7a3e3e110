"""A shell on a node through its API server: one exec for each script, or one call of the relay."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hil.apiserver.server import Server
from hil.shell import DEADLINE, LIMIT, Done, NodeError, NodeTimeout, NodeUnfit, NodeUnreachable
from hil.transport.bounded import BoundedShell
from hil.transport.kube.executing import SAYS, Exec
from hil.transport.kube.pod import IMAGE, NAME, TransportPod
from hil.transport.kube.relay import END, Relay, new_key, starting
from hil.transport.kube.talk import TunnelTalk
from hil.transport.supervised import Supervised
from topologies.errors import one_line

#: Seconds that the pod may take to run: it may have to be pulled, on a node that is slow.
_STARTS: Final = 180.0
#: Seconds that one call waits for a broken way to work again.
_AGAIN: Final = 30.0
_AFTER: Final = 5.0
#: Seconds after which a missing relay counts as ended, and not as one of a node that boots.
_BACK: Final = 120.0

Begin = Callable[[str, bytes, int], TunnelTalk]


class KubeShell(BoundedShell[TunnelTalk]):
    """:class:`hil.shell.Shell` on a node of a cluster. :meth:`connect` makes the pod, :meth:`close`
    takes it away. A connection that broke raises :class:`NodeUnreachable` once; the next run looks
    for the pod, and makes another where it is gone."""

    def __init__(
        self,
        name: str,
        server: Server,
        node: str,
        *,
        image: str = "",
        then: Callable[[], None] = lambda: None,
        patience: float = _STARTS,
    ) -> None:
        """``then`` is called when the shell is closed."""
        super().__init__(name, root=True)
        self._server, self._node, self._image = server, node, image or IMAGE
        self._then, self._patience = then, patience
        self._pod: TransportPod | None = None
        self._exec: Exec | None = None
        self._outlasts = False
        self._relay: Relay | None = None
        #: When the relay was first missing, of ``time.monotonic``; 0 while it is there.
        self._missing_since = 0.0

    def connect(self) -> None:
        """Start the pod, and a shell of the node in it. Raises what :mod:`hil.apiserver` lists."""
        with self._lock:
            self._ready()

    def outlast_kubelet(self) -> None:
        """From now on scripts reach the node while its kubelet is down, and the pod is gone. Raises
        :class:`hil.shell.NodeUnfit` where neither image nor node has the program for that, and
        where the API server does not reach the node's ports."""
        self._outlasts = True
        try:
            self.run(":")
        except NodeUnreachable as error:
            raise NodeUnfit(
                f"{self.name}: a run that stops the kubelet needs an API server that reaches the "
                f"node's own ports (nodes/proxy): {error}"
            ) from error

    def outlast_boot(self, folder: str) -> None:
        """From now on scripts reach the node after a boot, whether its kubelet comes up or not.
        ``folder`` is the one of the node's agent, which starts the relay again. A node without perl
        is reached only once its kubelet is up."""
        with self._lock:
            relay = self._relay
            assert relay is not None, "a run that boots a node may stop its kubelet"
            try:
                self._relay = self._start_relay(relay.begin, relay.parent, starting(folder))
            except NodeUnfit:
                return
        _send(relay.begin, END)

    def close(self) -> None:
        with self._lock:
            relay, self._relay = self._relay, None
            try:
                if relay is not None:
                    _send(relay.begin, END)
                self._leave_pod()
            finally:
                self._then()

    def _leave_pod(self) -> None:
        pod, self._pod, self._exec = self._pod, None, None
        if pod is not None:
            pod.remove()

    def _ready(self) -> Exec:
        if self._exec is not None:
            return self._exec
        if self._pod is None:
            patience = _AGAIN if self._missing_since else self._patience
            self._pod = TransportPod.started(
                self._server, self._node, self._image, patience=patience
            )
        else:
            self._pod.await_running(_AGAIN)
        way = Exec(self.name, self._server, self._pod.namespace, NAME)
        status, talk = self._finished(way.find(LIMIT))
        if status != 0:
            raise NodeUnfit(f"{self.name}: {_error(talk) or f'exec ended with status {status}'}")
        way.found(talk.out.decode("ascii", "replace"))
        self._exec = way
        return way

    def _finished(self, talk: TunnelTalk) -> tuple[int, TunnelTalk]:
        """Run one of the shell's own commands to its end; its status and its talk."""
        self.trips += 1
        try:
            if not talk.until(time.monotonic() + _AGAIN):
                raise NodeTimeout(f"{self.name}: no answer in {_AGAIN:g} s")
            return talk.status, talk
        finally:
            talk.close()

    def _way(self) -> Exec | Relay:
        with self._lock:
            if not self._outlasts:
                return self._ready()
            if self._relay is None:
                way = self._ready()
                # Without the pod, no process of pinproof is in the cgroups that are judged.
                begin, enter = way.begin, ""
                if way.perl:
                    begin, enter = way.begin_in_image, f"{way.enter} -t 1 -m --"
                self._relay = self._start_relay(begin, way.parent, starting(enter=enter))
                self._leave_pod()
            return self._relay

    def _start_relay(self, begin: Begin, parent: str, script: str) -> Relay:
        key = new_key()
        run = Supervised.of(script, DEADLINE, root=True)
        status, talk = self._finished(begin(run.command(parent), f"{key}\n".encode(), LIMIT))
        if said := _error(talk):
            raise NodeUnfit(f"{self.name}: {said}")
        started = run.done(status, bytes(talk.out), bytes(talk.aside), node=self.name)
        return Relay(self.name, self._server, self._node, key=key, started=started)

    def _start(self, run: Supervised, stdin: bytes, limit: int) -> TunnelTalk:
        relay = self._relay
        try:
            if relay is not None and (talk := self._talk(relay, run, stdin, limit)):
                return talk
            way = self._way()
            return way.begin(run.command(way.parent), stdin, limit)
        except NodeUnreachable:
            self._relay = self._relay or relay
            self._forget_exec()
            self.trips -= 1  # nothing reached the node
            raise

    def _talk(self, relay: Relay, run: Supervised, stdin: bytes, limit: int) -> TunnelTalk | None:
        """``None``: it has ended for good. After a boot the same relay is there again."""
        try:
            talk = relay.begin(run.command(relay.parent), stdin, limit)
        except NodeUnreachable:
            now = time.monotonic()
            self._missing_since = self._missing_since or now
            if now - self._missing_since < _BACK:
                raise
            self._relay = None
            return None
        self._missing_since = 0.0
        return talk

    def _forget_exec(self) -> None:
        with self._lock:
            self._exec = None

    def _kill(self, run: Supervised, talk: TunnelTalk) -> None:
        """By a second command; where none can be sent, the watcher on the node does it."""
        way: Exec | Relay | None = self._relay or self._exec
        command = run.killing(bytes(talk.out))
        if command and way is not None:
            _send(way.begin, command)

    def _done(self, run: Supervised, talk: TunnelTalk) -> Done:
        try:
            if said := _error(talk):
                raise NodeUnfit(f"{self.name}: {said}")
            return super()._done(run, talk)
        except NodeUnreachable:
            self._forget_exec()
            raise


def _error(talk: TunnelTalk) -> str:
    """The error of the shell words around a script; ``""`` without one."""
    before, mark, after = talk.aside.decode("utf-8", "replace").partition(SAYS)
    return one_line(after) if mark and not before.strip() else ""


def _send(begin: Begin, command: str) -> None:
    """Run a command, and ignore its answer."""
    try:
        talk = begin(command, b"", LIMIT)
        try:
            talk.until(time.monotonic() + _AFTER)
        finally:
            talk.close()
    except NodeError:
        return
