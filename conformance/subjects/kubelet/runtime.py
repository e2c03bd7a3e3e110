"""A fake container runtime: it runs no program, but keeps what a kubelet asked for.

What belongs here: the entry for all calls, and what a node reads and changes. What never does: the
effect of a call (:mod:`conformance.subjects.kubelet.cri.containers`), its form
(:mod:`conformance.subjects.kubelet.cri.handlers`) and gRPC
(:mod:`conformance.subjects.kubelet.cri.service`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import Message

from conformance.subjects.kubelet.bell import Bell
from conformance.subjects.kubelet.cri import cri_pb2 as pb
from conformance.subjects.kubelet.cri.containers import Call, Container, Containers, PodSandbox
from conformance.subjects.kubelet.cri.handlers import handlers, version
from conformance.subjects.kubelet.cri.held import HeldCalls
from conformance.subjects.kubelet.cri.service import serve
from reference.cpumanager.state.state_checkpoint import parse_leniently
from reference.cpuset import CPUSet
from reference.view import CFS, CFS_PERIOD, Asked

_T = TypeVar("_T")


class FakeRuntime:
    """RuntimeService and ImageService on a unix socket. It outlives kubelets.

    ``state_file`` reads the CPU manager's state file, whose text is kept when a container starts.
    ``not_served_paths`` are the calls that are not served, ``called`` is whether a kubelet ever
    called. ``held``: the calls that take their time.
    """

    def __init__(
        self, socket_path: Path, bell: Bell, state_file: Callable[[], str | None] = lambda: None
    ) -> None:
        self.not_served_paths: set[str] = set()
        self.called = False
        self.held = HeldCalls(bell.ring)
        self._bell = bell
        self._lock = threading.Lock()
        self._store = Containers(bell.ring, state_file)
        self._handlers = handlers(self._store)
        self._path = socket_path
        self._server = serve(self, socket_path)

    def close(self) -> None:
        """Stop serving. May be called twice."""
        self.held.end()
        self._server.stop(None).wait()

    # --- what gRPC brings --------------------------------------------------------------------

    def answer(self, method: str, api: str, request: Message) -> Message:
        """Answer a kubelet's call; see :class:`conformance.subjects.kubelet.cri.service.Listener`.

        Calls change containers one at a time."""
        self.called = True
        if method == "Version":
            return version(api)
        self.held.pass_through(method)
        with self._lock:
            handler = self._handlers.get(method)
            answer = handler(request) if handler else None
        return pb.Empty() if answer is None else answer

    def not_served(self, path: str) -> None:
        """Note a call that is not served."""
        self.not_served_paths.add(path)
        self._bell.ring()

    # --- what the node sees and does ---------------------------------------------------------

    def cpusets(self) -> dict[str, dict[str, CPUSet | None]]:
        """The cpuset of every running container, by pod uid and container name (``None`` if none
        was sent)."""
        return self._of_running(_cpuset)

    def cfs(self) -> dict[str, dict[str, CFS]]:
        """The CFS settings that the kubelet sent for every running container, by pod uid and
        container name."""
        return self._of_running(_cfs)

    def running_ids(self) -> dict[str, str]:
        """The running containers: id to pod uid."""
        with self._lock:
            return {container.id: container.uid for container in self._store.running()}

    def ended(self) -> set[tuple[str, str]]:
        """Pod uid and name of each container that has ended, was not removed, and does not run
        again."""
        with self._lock:
            every = {(one.uid, one.name) for one in self._store.containers.values()}
            return every - {(one.uid, one.name) for one in self._store.running()}

    def sandboxes(self, *, ready: bool) -> dict[str, PodSandbox]:
        """By uid, the sandbox of each pod that is ready, or that was stopped."""
        with self._lock:
            every = [one for one in self._store.sandboxes.values() if one.ready is ready]
        return {one.uid: one for one in every}

    def owner(self, container: str) -> tuple[str, str] | None:
        """Pod uid and name of the container of this id, even if it was removed."""
        with self._lock:
            return self._store.owners.get(container)

    def recent_calls(self, number: int) -> list[Call]:
        """The last ``number`` calls that changed something."""
        with self._lock:
            return list(self._store.calls)[-number:]

    def asked(self, release: str) -> dict[str, dict[str, Asked]]:
        """What the kubelet asked for running containers and ended init containers, by pod uid and
        container name. State files are read as ``release`` does."""

        def read(container: Container) -> Asked:
            _, entries = parse_leniently(container.state_file, release=release)
            entry = entries.get(container.uid, {}).get(container.name)
            cpus = CPUSet.parse(container.started_on) if container.started_on else None
            mems = CPUSet.parse(container.resources.cpuset_mems)
            sent = tuple(container.sent)
            return Asked(cpus, entry, len(sent), container.id, mems=mems, sent=sent)

        with self._lock:
            ended = [one for one in self._store.containers.values() if one.ends_at_once]
            found: dict[str, dict[str, Asked]] = {}
            for container in (*ended, *self._store.running()):
                if container.started:
                    found.setdefault(container.uid, {})[container.name] = read(container)
        return found

    def refuse_updates(self, times: int, container: str) -> None:
        """Refuse the next updates of the resources of containers of this name, ``""``: of any."""
        with self._lock:
            self._store.refusals, self._store.refuses = times, container

    def set_cpuset(self, uid: str, name: str, cpus: CPUSet) -> bool:
        """Set a running container's cpuset behind the kubelet's back; ``False`` without one."""

        def change(container: Container) -> None:
            container.resources.cpuset_cpus = str(cpus)

        return self._to_running(uid, name, change)

    def set_quota(self, uid: str, name: str, quota: int) -> bool:
        """Set a running container's CFS quota behind the kubelet's back; ``False`` without one."""

        def change(container: Container) -> None:
            container.resources.cpu_quota = quota

        return self._to_running(uid, name, change)

    def end_container(self, uid: str, name: str, exit_code: int) -> bool:
        """End a running container behind the kubelet's back; ``False`` without one."""
        return self._to_running(uid, name, lambda container: container.exit(exit_code))

    def drop_pod(self, uid: str) -> None:
        """Remove a pod's sandboxes with their containers behind the kubelet's back."""
        with self._lock:
            of_pod = [one.id for one in self._store.sandboxes.values() if one.uid == uid]
            for sandbox in of_pod:
                self._store.remove_sandbox(sandbox)

    def restart(self) -> None:
        """Stop serving, and serve again; containers keep running."""
        self.close()
        self._server = serve(self, self._path)

    def drop_everything(self) -> None:
        """Remove all containers and sandboxes, as a reboot does."""
        with self._lock:
            self._store.clear()

    def _to_running(self, uid: str, name: str, do: Callable[[Container], None]) -> bool:
        with self._lock:
            for container in self._store.running():
                if (container.uid, container.name) == (uid, name):
                    do(container)
                    return True
        return False

    def _of_running(self, read: Callable[[Container], _T]) -> dict[str, dict[str, _T]]:
        found: dict[str, dict[str, _T]] = {}
        with self._lock:
            for container in self._store.running():
                found.setdefault(container.uid, {})[container.name] = read(container)
        return found


def _cfs(container: Container) -> CFS:
    """A container's CFS settings. A quota of 0 was never sent, and -1 stands for no quota."""
    asked = container.resources
    quota = asked.cpu_quota if asked.cpu_quota > 0 else None
    return CFS(quota, asked.cpu_shares, asked.cpu_period or CFS_PERIOD)


def _cpuset(container: Container) -> CPUSet | None:
    text = container.resources.cpuset_cpus
    return CPUSet.parse(text) if text else None
