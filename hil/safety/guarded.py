"""A guarded node: every change to it is undone at the end.

What belongs here: the order from the lease to the comparison, and what is reported. What never
does: what is done on the node (``node.sh``), and what may be done (:mod:`hil.safety.guards`).
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import FrameType
from typing import Final, TypeVar

from conformance.ending import ENDING, handled
from hil.changes import Change, KeepFile, Note, SetOnline, WriteFile
from hil.distributions import distribution_of
from hil.inspection import NodeFacts
from hil.safety import agent, guards
from hil.safety.errors import LeaseLost, NotRestored
from hil.safety.risk import Allow, Risk
from hil.shell import Done, NodeError, NodeUnfit, Shell

#: Seconds of silence after which the node restores itself.
PATIENCE: Final = 120.0
#: Seconds that what was undone may take to show: offline CPUs reach cpusets with a delay, and the
#: kubelet forgets pods when it looks at its runtime.
SETTLE: Final = 20.0
#: Seconds that a run may keep a node without doing anything to it.
IDLE: Final = 1800.0
#: Seconds that leaving waits for a renewal of the lease that is on its way.
_LEAVING: Final = 60.0
#: Restoring restarts the kubelet and waits for what follows.
_RESTORING: Final = 600.0
_BOOT_UNIT: Final = "/etc/systemd/system/pinproof-dead-man-boot.service"
_BOOT_WANTS: Final = "/etc/systemd/system/multi-user.target.d/pinproof.conf"
Self = TypeVar("Self", bound="Guarded")


class Guarded:
    """A node that a run holds for a while, and leaves as it was.

    Entering takes the lease, sweeps what a dead run left, takes the fingerprint, writes the
    journal and sets the dead-man timer, in one round trip; a thread then keeps the lease alive.
    Leaving, however it happens, undoes all changes, compares, and gives the lease back, in one
    round trip. ``owner`` names the run (``""``: made up); ``say`` takes one line for a person.
    """

    def __init__(
        self,
        shell: Shell,
        facts: NodeFacts,
        risk: Risk,
        owner: str = "",
        *,
        allow: Iterable[Allow] = (),
        static_pods: bool = False,
        patience: float = PATIENCE,
        settle: float = SETTLE,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Raises :class:`hil.shell.NodeUnfit` on entering where the node runs what would
        be disturbed and ``allow`` does not say so, :class:`hil.safety.NodeBusy` where another run
        has it. ``static_pods``: the run brings pods that the kubelet evicts others for.
        ``patience``: seconds of silence after which the node restores itself. ``settle``: seconds
        that what was undone may take to show."""
        self.facts = facts
        self.risk = risk
        self.owner = _owner(owner)
        #: How the node was, as text lines of name and value; ``""`` before entering.
        self.before = ""
        self._shell = shell
        self._allow = frozenset(allow)
        self._static_pods = static_pods
        self._patience = max(4, round(patience))
        self._settle = max(0, round(settle))
        self._say = say
        self._over = threading.Event()
        self._loss = ""
        self._last_act = self._renewed = time.monotonic()
        self._thread: threading.Thread | None = None

    def __enter__(self: Self) -> Self:
        guards.check_workloads(
            self.facts, self.risk, allow=self._allow, static_pods=self._static_pods
        )
        if missing := {"base64", "flock", "sha256sum"} - self.facts.tools:
            raise NodeUnfit(f"{self.facts.name}: it has no {', '.join(sorted(missing))}")
        script = agent.beginning(
            self.facts.root, self.owner, patience=self._patience, every=max(1, self._patience // 8)
        )
        done = self._shell.run(script, stdin=self._fields(), deadline=_RESTORING)
        agent.check(self.facts.name, done, manual=self.manual)
        self.before = done.text
        self._renewed = time.monotonic()
        self._thread = threading.Thread(target=self._keep_alive, daemon=True)
        self._thread.start()
        try:
            self._prepare()
        except BaseException as error:
            self.leave(error)
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """As :meth:`leave`; an earlier error propagates, unless the node could not be restored."""
        self.leave(error)

    def leave(self, error: BaseException | None = None, *, patience: float = 0.0) -> None:
        """Restore the node and end the lease. Where the node could not be restored, it may be
        called again. ``error``: why the run ends, if not by itself. ``patience``: seconds that the
        cgroups of the run's own pods may take to go, where nothing else differs. Raises
        :class:`hil.safety.NotRestored`."""
        self._over.set()
        if self._thread is not None:
            # A renewal for a node that has fallen silent ends by itself, later.
            self._thread.join(_LEAVING)
        if self._loss:
            raise LeaseLost(f"{self.facts.name}: {self._loss}") from error
        interrupted = isinstance(error, KeyboardInterrupt)
        self._say(f"{self.facts.name}: restoring")
        with second_interrupt_tells(self.manual, self._say, already=interrupted):
            try:
                done = self._shell.run(
                    agent.call(self.facts.root, "leave", self.owner, str(round(patience))),
                    deadline=_RESTORING + patience,
                )
                agent.check(self.facts.name, done, manual=self.manual)
            except (LeaseLost, NotRestored):
                raise
            except NodeError as cause:
                reason = f"it could not be restored ({cause}); {self.manual}"
                raise NotRestored(self.facts.name, [reason], manual=self.manual) from cause

    @property
    def manual(self) -> str:
        """The command that restores the node by hand."""
        return agent.manual_steps(self.facts.name, self.facts.root)

    def change(self, *changes: Change, then: str = "", deadline: float = _RESTORING) -> Done:
        """Journal and make all these changes in order, then run the script ``then``: one round
        trip, which holds the node's lock. ``deadline`` in seconds. How ``then`` ended is the
        result. Nothing is changed that is not journalled; raises :class:`hil.shell.NodeUnfit` where
        one could not be made, :class:`hil.safety.LeaseLost`, and what the shell raises. A CPU that
        must stay online is refused before anything is done: CPU 0, a reserved one, one of a foreign
        pinned pod."""
        guards.check_changes(self.facts, self.risk, changes)
        if self._loss:
            raise LeaseLost(f"{self.facts.name}: {self._loss}")
        self._last_act = self._renewed = time.monotonic()
        for one in changes:
            self._say(f"{self.facts.name}: {agent.describe(one)}")
        script, mark = agent.applying(self.facts.root, self.owner, then)
        done = self._shell.run(script, stdin=agent.lines(changes), deadline=deadline)
        before, token, after = done.stderr.partition(f"{mark}\n".encode())
        if not token:
            if done.status >= 0:
                agent.check(self.facts.name, done)
            raise NodeUnfit(f"{self.facts.name}: a step was ended before its changes were made")
        self._last_act = time.monotonic()
        for message in agent.messages(before):
            self._say(f"{self.facts.name}: {message}")
        return replace(done, stderr=before + after)

    def offline(self, *cpus: int) -> None:
        """Take CPUs offline, in this order."""
        self.change(*(SetOnline(cpu, False) for cpu in cpus))

    def online(self, *cpus: int) -> None:
        self.change(*(SetOnline(cpu, True) for cpu in cpus))

    def note(self, undo: str) -> None:
        """:class:`~hil.changes.Note`."""
        self.change(Note(undo))

    def touch(self) -> None:
        """Renew the lease (a thread does so by itself), and check that the dead-man timer is set
        and runs; it is set again where it does not. Raises :class:`LeaseLost`."""
        self._last_act = time.monotonic()
        self._report(self._shell.run(agent.call(self.facts.root, "touch", self.owner)))

    def _report(self, done: Done) -> None:
        """Raise the error of a renewal, and say what it did to the dead-man timer."""
        agent.check(self.facts.name, done)
        for message in agent.messages(done.stderr):
            self._say(f"{self.facts.name}: {message}")

    def restore(self) -> None:
        """Undo all changes so far, and go on holding the node. Raises :class:`NotRestored`."""
        done = self._shell.run(agent.call(self.facts.root, "undo", self.owner), deadline=_RESTORING)
        agent.check(self.facts.name, done, manual=self.manual)
        self._last_act = time.monotonic()
        self._prepare()

    def _prepare(self) -> None:
        """Make the changes that a risk needs first."""
        kubelet = self.facts.kubelet
        changes: list[Change] = []
        restarts = self.risk >= Risk.KUBELET_RESTART
        if kubelet is not None and restarts:
            # A kubelet rewrites its state file, and tools that manage a node rewrite unit files.
            unit = self.facts.units.get(kubelet.unit)
            paths = [kubelet.config_path, *kubelet.drop_ins, *(unit.files if unit else ())]
            changes += [KeepFile(path) for path in (*paths, kubelet.state_path) if path]
        after_boot = restarts or (self._static_pods and self.risk >= Risk.PODS)
        if after_boot and self.facts.systemd:
            changes += self._after_boot()
        if changes:
            self.change(*changes)

    def _after_boot(self) -> list[Change]:
        """A unit for the boot: any boot, also an unplanned one, ends the timer, and what is on disk
        stays."""
        run = f"/bin/sh {self.facts.root}{agent.PLACE}/node.sh at-boot"
        unit = f"[Unit]\nDescription=Restores this node\n[Service]\nExecStart={run}\n"
        wants = "[Unit]\nWants=pinproof-dead-man-boot.service\n"
        return [WriteFile(_BOOT_UNIT, unit.encode()), WriteFile(_BOOT_WANTS, wants.encode())]

    def _fields(self) -> bytes:
        kubelet = self.facts.kubelet
        if kubelet is None:
            return agent.fields((), {"settle": str(self._settle)})
        distribution = distribution_of(self.facts)
        others = bool(guards.foreign(self.facts))
        values = {
            "state": kubelet.state_path,
            "manifests": kubelet.manifests,
            "pods": f"{kubelet.root_dir}/pods",
            # Containers of others come and go.
            "cgroups": "" if others else "all",
            "settle": str(self._settle),
        }
        if not distribution.cannot_restart(self.facts):
            values["start"] = distribution.start(self.facts)
            values["stop"] = distribution.stop(self.facts)
            values["active"] = distribution.identity(self.facts)
        unit = self.facts.units.get(kubelet.unit)
        watched = [
            kubelet.config_path,
            kubelet.config_dir,
            *kubelet.drop_ins,
            *(unit.files if unit else ()),
            f"/etc/systemd/system/{kubelet.unit}.d" if kubelet.unit else "",
            kubelet.manifests,
            # With pods of others, it changes as they come and go.
            "" if others else kubelet.state_path,
            *distribution.watched,
        ]
        return agent.fields(watched, values)

    def _keep_alive(self) -> None:
        """Renew the lease while the run acts: one that is idle for :data:`IDLE` seconds counts as
        dead. A change renews it too, so a round trip is spent only where none was begun for a
        while."""
        while not self._over.wait(self._patience / 8):
            now = time.monotonic()
            if now - self._last_act > IDLE:
                return
            if now - self._renewed < self._patience / 4:
                continue
            try:
                self._report(self._shell.run(agent.call(self.facts.root, "touch", self.owner)))
                self._renewed = now
            except LeaseLost as error:
                self._loss = f"the node restored itself: the runner was silent too long ({error})"
                return
            except Exception:  # noqa: S112
                continue  # the node boots, or its connection broke: the next step reports it


def _owner(text: str) -> str:
    name = text or f"{socket.gethostname()}-{os.getpid()}"
    return f"{re.sub('[^A-Za-z0-9._-]', '-', name)[:60]}-{secrets.token_hex(3)}"


def second_interrupt_tells(
    manual: str, say: Callable[[str], None], *, already: bool = False
) -> contextlib.AbstractContextManager[None]:
    """In the block, the first SIGINT, SIGTERM or SIGHUP is answered and otherwise ignored; the
    second says ``manual`` and raises ``KeyboardInterrupt``. ``already``: the first came before the
    block. Where they are not :func:`~conformance.ending.handled`, nothing changes."""
    count = int(already)

    def interrupted(number: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count < 2:
            say("restoring first; press Ctrl-C again to leave the node as it is")
            return
        say(f"not restored; {manual}")
        raise KeyboardInterrupt

    return handled((signal.SIGINT, *ENDING), interrupted)
