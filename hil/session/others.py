"""What others do on a node while this run holds it. Pure.

What belongs here: what this run expects of a node beside what its scenarios judge, and changes by
others. What never does: the kubelet's unit (:func:`hil.session.views.another_hand`).

A kubelet replaces its state file and removes it in no release. It writes no configuration, switches
no CPU, and starts no runtime. So a change of these that this run did not make says nothing of the
kubelet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hil.observation import Observation
from hil.safety import Change, RemoveFile, SetOnline, WriteFile
from reference import CPUSet

BOOTED: Final = "the node was booted by another program: it has a new boot id"
#: In the story of a failure on a real node.
SAME: Final = "A cpuset that another program writes into a container's cgroup looks the same."


class Others:
    """What is expected of one node, over its observations. ``socket`` is the runtime's."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        #: The boot id that is expected; ``""`` where any is.
        self.boot = ""
        self._online: CPUSet | None = None
        self._files: dict[str, str] = {}
        self._state_of = ""

    def will(self, changes: Iterable[Change]) -> None:
        """Expect these changes: this run makes them now."""
        for change in changes:
            match change:
                case SetOnline(cpu, online) if self._online is not None:
                    one = CPUSet([cpu])
                    self._online = self._online | one if online else self._online - one
                case WriteFile(path) | RemoveFile(path):
                    self._files.pop(path, None)
                    self._files.pop(path.rpartition("/")[0], None)

    def boots(self) -> None:
        """Expect nothing: this run has booted the node."""
        self.boot, self._online, self._state_of = "", None, ""
        self._files.clear()

    def restarts_runtime(self) -> None:
        """Another socket is expected: this run restarts the runtime."""
        self._files.pop(self._socket, None)

    def deed(self, seen: Observation) -> str:
        """What others have done, in words; ``""``: nothing. What the observation shows for the
        first time is expected from now on."""
        deeds = (
            self._booted(seen),
            self._switched(seen),
            self._removed_state(seen),
            self._restarted_runtime(seen),
            self._configured(seen),
        )
        return next(filter(None, deeds), "")

    def _booted(self, seen: Observation) -> str:
        before, self.boot = self.boot, seen.boot or self.boot
        if not before or before == self.boot:
            return ""
        self.boots()
        self.boot = seen.boot
        return BOOTED

    def _switched(self, seen: Observation) -> str:
        if self._online is None:
            self._online = seen.online
        gone, come = self._online - seen.online, seen.online - self._online
        if gone:
            return f"{_cpus(gone)} taken offline by another program: {seen.online} are online"
        return f"{_cpus(come)} brought online by another program" if come else ""

    def _removed_state(self, seen: Observation) -> str:
        """Seen only while one process of the kubelet runs."""
        runs = seen.service.invocation if seen.service.running else ""
        if seen.state_file is not None:
            self._state_of = runs
        if seen.state_file is not None or not runs or self._state_of != runs:
            return ""
        return (
            "the state file was removed by another program: the kubelet runs on as "
            f"process {seen.service.pid}, and a kubelet does not remove it"
        )

    def _restarted_runtime(self, seen: Observation) -> str:
        before, now = self._files.get(self._socket), seen.files.get(self._socket)
        if now is not None:
            self._files[self._socket] = now
        if before is None or before == now or not seen.files:
            return ""
        if now is None:
            return f"the container runtime was stopped by another program: {self._socket} is gone"
        return (
            f"the container runtime was restarted by another program: {self._socket} is another one"
        )

    def _configured(self, seen: Observation) -> str:
        for path, now in seen.files.items():
            if self._files.setdefault(path, now) != now:
                return f"{path} was changed by another program"
        gone = sorted(self._files.keys() - {*seen.files, self._socket}) if seen.files else []
        return f"{gone[0]} was removed by another program" if gone else ""


def _cpus(cpus: CPUSet) -> str:
    return f"CPU {cpus} was" if len(cpus) == 1 else f"CPUs {cpus} were"
