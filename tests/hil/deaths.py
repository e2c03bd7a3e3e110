"""A whole certification whose runner is killed again and again, and how its node is each time.

    pinproof lab up 1s-1n-4c-smt1 1s-1n-4c-smt1 --kubelet PATH           prints an INVENTORY
    python -m tests.hil.deaths INVENTORY [--seed 1] [--moments reload]   nodes that nobody else uses
    python -m tests.hil.deaths … --upgrade-to KUBELET      deaths of an upgrade to it instead

One certification at ``--max-risk reboot`` is begun, killed with SIGKILL at a moment, and resumed
once its node has restored itself: twenty deaths cost one certification. Several nodes share the
moments. Nobody does anything to a node between a death and the comparison with a snapshot that
knows nothing of what pinproof compares. The snapshot is taken after one boot and one undisturbed
run, and again: a node that changes by itself is refused.

Each death of an upgrade costs as much of that as comes before it.

A moment is a condition on the node, seen from outside the product, and a delay drawn by the seed.
The node is reached as hardware is: by an inventory that does not say that it is the lab's. So it
boots by its own hand, and nobody else can boot it. Exit status 0 only where every death was undone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hil.lab.recipe import WORKLOAD_IMAGE
from hil.shell import NodeError, Shell
from hil.transport import NodeAddress, connected, nodes
from tests.support.node_snapshot import different, snapshot

ROOT: Final = Path(__file__).parents[2]
#: Seconds that a runner may be silent: a user's has 120.
PATIENCE: Final = 40
#: Seconds in which a moment has to come, a node to restore itself, and one to be as it was once
#: nothing of the run is left that could still restore it.
_COMES, _RESTORES, _SETTLES = 2400.0, 1200.0, 120.0
#: The kubelet is stopped and started with another configuration, and pods of each class of quality
#: come and go: the kubelet makes the cgroup of a class whole with the first pod of that class.
_UNDISTURBED: Final = "config/reservation-by-list or qos/"
#: Before an upgrade.
_FIRST: Final = "qos/fraction-shares"

_HELD: Final = "[ -d /var/lib/pinproof/journal ]"
_POD: Final = "ls /etc/kubernetes/manifests/pinproof-* >/dev/null 2>&1"
#: Something has to be restored.
_CHANGED: Final = f"{_HELD} && {_POD}"
_CONFIG: Final = f"{_HELD} && ! cmp -s /var/lib/kubelet/config.yaml /run/deaths/config.yaml"
_STOPPED: Final = f'{_HELD} && [ "$(systemctl is-active kubelet)" != active ]'
_OFFLINE: Final = f"{_HELD} && ! cmp -s /sys/devices/system/cpu/online /run/deaths/online"
_RESTORING: Final = "ps -eo args= | grep -q '^[s]h /var/lib/pinproof/node.sh leave'"
_LEFT: Final = f"{_RESTORING} && ! {_HELD}"
#: A sandbox that has ended stays known to the runtime, until the kubelet's next look for such.
_FORGOTTEN: Final = (
    '[ -z "$(ctr -n k8s.io containers ls -q \'labels."io.kubernetes.pod.name"~=pinproof-\')" ]'
)
_ENDS: Final = "systemctl list-jobs --no-legend | grep -q 'reboot[.]target'"
#: What is below /run goes with a boot.
_BOOTED: Final = "[ ! -e /run/deaths ]"
_RELOAD, _REEXEC = "systemctl daemon-reload", "systemctl daemon-reexec"


@dataclass(frozen=True, slots=True)
class Moment:
    """When a runner dies: ``condition`` holds on the node, then ``then`` is done there, and 0 to
    ``within`` seconds pass. A runner that is ``asked`` to end (SIGTERM) once that holds restores
    the node. ``result``: the condition is a new result in the stream. ``down``: once the
    condition holds, the node no longer answers. ``last``: no moment comes after it."""

    name: str
    condition: str = "true"
    then: str = ":"
    within: float = 1.0
    asked: str = ""
    result: bool = False
    down: bool = False
    last: bool = False


_KUBELET: Final = "/usr/local/bin/kubelet"
_ARRIVES: Final = "[ -e /var/lib/pinproof/kubelet ]"
_WRITTEN: Final = "[ -e /usr/local/bin/.pinproof.new ]"
_OTHER: Final = f'[ "$(stat -c %s {_KUBELET})" != "$(cat /run/deaths/size)" ]'
_OTHER_RUNS: Final = f"{_OTHER} && [ -S /var/lib/kubelet/device-plugins/kubelet.sock ]"
_OWN_AGAIN: Final = (
    f"{{ {{ {_OTHER} && touch /run/deaths/other; }}; "
    f"[ -e /run/deaths/other ] && ! {{ {_OTHER}; }}; }}"
)
#: In the order in which an upgrade meets them.
OF_AN_UPGRADE: Final = (
    Moment("the other kubelet arrives", _ARRIVES, within=8),
    Moment("pods run on the node's own kubelet", f"{_ARRIVES} && {_POD}", within=8),
    Moment("the other program is written", _WRITTEN, within=0.5),
    Moment("the program is another, nothing runs", _OTHER, within=0.5),
    Moment("the other kubelet runs", _OTHER_RUNS, within=8),
    Moment("the node's own kubelet is back", _OWN_AGAIN, within=8),
    Moment("restoring: asked to end, the program is another", _RESTORING, within=4, asked=_OTHER),
)
#: In the order in which a certification meets them.
MOMENTS: Final = (
    Moment("taking the lease: the dead-man timer is set", "[ -e /run/pinproof-dead-man.sh ]"),
    Moment("taking the lease: there is a folder", "[ -e /var/lib/pinproof ]"),
    Moment("the node is taken, nothing is changed", _HELD, within=0.5),
    Moment("between two scenarios", result=True, within=0.3),
    Moment("a pod comes", _POD),
    Moment("pods come and go", _POD, within=8),
    Moment("after a daemon-reload, pods run", _POD, _RELOAD),
    Moment("after a daemon-reexec, pods run", _POD, _REEXEC),
    Moment("restoring: asked to end", _RESTORING, within=2, asked=_CHANGED),
    Moment("leaving: the journal is gone", _LEFT, within=0.2, asked=_CHANGED),
    Moment("the configuration is another", _CONFIG),
    Moment("the kubelet starts with another configuration", _CONFIG, within=8),
    Moment("the kubelet is stopped", _STOPPED, within=0.5),
    Moment("after a daemon-reload, the kubelet is stopped", _STOPPED, _RELOAD, within=0.5),
    Moment("reboot: the node is about to go down", _ENDS, within=0.2),
    Moment("reboot: the node is down", _ENDS, within=3, down=True),
    Moment("reboot: the node is up again", _BOOTED, within=10),
    Moment("a CPU is offline", _OFFLINE),
    Moment("after a daemon-reload, a CPU is offline", _OFFLINE, _RELOAD),
    Moment("the end of the certification: leaving", _RESTORING, within=3, last=True),
)


@dataclass(frozen=True, slots=True)
class Death:
    """What came of one: seconds until the node was as before, or was given up; what still differed;
    whether nobody had to do anything, and whether nothing of the run is left; why the moment was
    missed."""

    moment: Moment
    delay: float
    seconds: float
    differences: Sequence[str]
    left: bool
    missed: str = ""

    @property
    def right(self) -> bool:
        return not (self.differences or self.left or self.missed)

    def __str__(self) -> str:
        said = self.missed or ("right" if self.right else "not restored" if self.left else "TRACES")
        return f"{self.moment.name} | {self.delay:.1f} s | {said} | {self.seconds:.0f} s"


class Ended(Exception):
    """The command is to end."""


class Never(Exception):
    """The moment did not come."""


class Runner:
    """A certification that can be killed; it goes on where the one before was."""

    _CODE = (
        "from hil.safety import Guarded; from pinproof.cli import main; "
        f"Guarded.__init__.__kwdefaults__['patience'] = {PATIENCE}.0; main()"
    )

    def __init__(self, folder: Path, *words: str) -> None:
        self._folder = folder
        log = (folder / "runner.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-c", self._CODE, *words],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log.close()

    @classmethod
    def certifies(cls, folder: Path, inventory: Path) -> Runner:
        more = ["--image", WORKLOAD_IMAGE, "--resume", "--report", str(folder / "out")]
        risk = ["--max-risk", "reboot", "--level", "extended"]
        return cls(folder, "certify", str(inventory), *risk, *more)

    @classmethod
    def upgrades(cls, folder: Path, inventory: Path, kubelet: str) -> Runner:
        """An upgrade to this kubelet, after one scenario."""
        more = ["--image", WORKLOAD_IMAGE, "--report", str(folder / "out"), "-k", _FIRST]
        risk = ["--max-risk", "kubelet-restart", "--upgrade-to", kubelet]
        return cls(folder, "certify", str(inventory), *risk, *more)

    @classmethod
    def is_undisturbed(cls, folder: Path, inventory: Path) -> Runner:
        more = ["--max-risk", "kubelet-restart", "-k", _UNDISTURBED]
        return cls(folder, "run", "--subject", f"node:{inventory}?image={WORKLOAD_IMAGE}", *more)

    @property
    def status(self) -> int | None:
        """How it ended, if it did."""
        return self._process.poll()

    @property
    def results(self) -> int:
        """How many lines its stream has."""
        streams = self._folder.glob("out/**/result.jsonl")
        return sum(one.read_bytes().count(b"\n") for one in streams)

    @property
    def said(self) -> str:
        lines = (self._folder / "runner.log").read_text(errors="replace").split("\n")
        return " / ".join(line.strip() for line in lines[-4:] if line.strip())

    def ask_to_end(self) -> None:
        """As a service manager does."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """It and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Victim:
    """A node, and the certification that is killed on it, or the upgrade to ``kubelet``. ``over``
    ends all waiting."""

    def __init__(
        self, address: NodeAddress, folder: Path, over: threading.Event, kubelet: str = ""
    ) -> None:
        self.address, self._folder, self._over = address, folder, over
        self._kubelet = kubelet
        self._inventory = folder / "inventory.toml"
        self._inventory.write_text(_as_hardware(address), encoding="utf-8")
        (self._reached,) = nodes(str(self._inventory))
        self.before: frozenset[str] = frozenset()

    def prepare(self) -> list[str]:
        """Boot the node and certify one scenario, undisturbed; what that run changed, and what
        changes by itself: nothing, or it is refused."""
        if not self._holds("[ -d /run/deaths ]"):  # left by this command, since a boot of its own
            self._boot()
        self._wait(lambda: self._holds(_FORGOTTEN), None, _RESTORES)
        first = snapshot(self._reached)
        runner = Runner.is_undisturbed(self._folder, self._inventory)
        try:
            self._wait(lambda: runner.status is not None, None, _RESTORES)
        finally:
            runner.kill()
        if runner.status != 0:
            raise RuntimeError(f"{self.address.name}: an undisturbed run failed: {runner.said}")
        self._wait(lambda: self._holds(_FORGOTTEN), None, _RESTORES)
        self.before = snapshot(self._reached)
        self._pause(10)
        if changed := different(self.before, snapshot(self._reached)):
            raise RuntimeError(f"{self.address.name} changes by itself: {changed}")
        return different(first, self.before)

    def _boot(self) -> None:
        self._run("mkdir /run/deaths; systemctl reboot --no-block")
        started = f"{_BOOTED} && [ -S /var/lib/kubelet/device-plugins/kubelet.sock ]"
        self._wait(lambda: self._holds(started), None, _RESTORES)
        self._pause(5)

    def dies(self, moment: Moment, delay: float) -> Death:
        self._run(
            "mkdir -p /run/deaths; cp /sys/devices/system/cpu/online /run/deaths/; "
            "cp /var/lib/kubelet/config.yaml /run/deaths/; "
            f"stat -c %s {_KUBELET} >/run/deaths/size; rm -f /run/deaths/other"
        )
        runner, missed = self._begins(), ""
        try:
            self._reach(moment, runner)
            self._pause(delay)
        except Never as error:
            missed = f"{error}: {runner.said}"
        finally:
            runner.kill()
        return self._looked_after(moment, delay, missed)

    def _begins(self) -> Runner:
        if self._kubelet:
            return Runner.upgrades(self._folder, self._inventory, self._kubelet)
        return Runner.certifies(self._folder, self._inventory)

    def _reach(self, moment: Moment, runner: Runner) -> None:
        if moment.result:
            there = runner.results
            self._wait(lambda: runner.results > there, runner, _COMES)
        if moment.asked:
            self._met(moment.asked, runner)
            runner.ask_to_end()
        self._met(f"{{ {moment.condition}; }} && {{ {moment.then}; }}", runner)
        if moment.down:
            self._wait(lambda: not self._holds("true"), runner, _COMES)

    def _met(self, condition: str, runner: Runner) -> None:
        """Wait on the node; one that boots in between is asked again."""
        end = time.monotonic() + _COMES
        while time.monotonic() < end:
            with suppress(NodeError), connected(self._reached) as shell:
                watch = _Watch(shell, f"until {condition}; do sleep 0.1; done")
                self._wait(watch.over, runner, _COMES)
                if watch.met:
                    return
            self._pause(0.2)
        raise Never(f"did not come in {_COMES:.0f} s")

    def _looked_after(self, moment: Moment, delay: float, missed: str) -> Death:
        began = gone = time.monotonic()
        left, differences = True, ["it cannot be reached"]
        kept = "ls -d /var/lib/pinproof /run/pinproof-dead-man.sh 2>/dev/null; true"
        while time.monotonic() - began < _RESTORES and time.monotonic() - gone < _SETTLES:
            self._pause(2)
            if left:
                gone = time.monotonic()
                with suppress(NodeError), connected(self._reached) as shell:
                    there = shell.run(kept).text.split()
                    left, differences = bool(there), [f"{one} is there" for one in there]
                continue
            with suppress(NodeError):
                seconds = time.monotonic() - began
                differences = different(self.before, snapshot(self._reached))
                if not differences:
                    return Death(moment, delay, seconds, (), left, missed)
        return Death(moment, delay, time.monotonic() - began, differences, left, missed)

    def _run(self, script: str) -> None:
        with connected(self._reached) as shell:
            shell.run(script)

    def _holds(self, condition: str) -> bool:
        with suppress(NodeError), connected(self._reached) as shell:
            return shell.run(condition).status == 0
        return False

    def _pause(self, seconds: float) -> None:
        if self._over.wait(seconds):
            raise Ended

    def _wait(self, done: Callable[[], bool], runner: Runner | None, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not done():
            if runner is not None and runner.status is not None:
                raise Never(f"the certification ended before, with {runner.status}")
            if time.monotonic() > end:
                raise Never(f"did not come in {seconds:.0f} s")
            self._pause(0.05)


class _Watch(threading.Thread):
    """A script that waits on a node; it ends with its shell."""

    def __init__(self, shell: Shell, script: str) -> None:
        super().__init__(daemon=True)
        self._shell, self._script, self.met = shell, script, False
        self.start()

    def over(self) -> bool:
        """It waits no longer."""
        return not self.is_alive()

    def run(self) -> None:
        with suppress(NodeError):
            self.met = self._shell.run(self._script, deadline=_COMES).status == 0


def _as_hardware(address: NodeAddress) -> str:
    """An inventory of this node that does not say that the lab can boot it."""
    keys = ", ".join(json.dumps(str(one)) for one in address.identity)
    return f"""[[node]]
name = {json.dumps(address.name)}
url = {json.dumps(address.url)}
identity = [{keys}]
known_hosts = {json.dumps(str(address.known_hosts))}
allow = ["reboot", "static-pods"]
"""


def tell(line: str) -> None:
    """On stdout, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("inventory", help="nodes that are there; nobody else uses them")
    parser.add_argument("--seed", type=int, default=1, help="of the delays (1)")
    parser.add_argument("--moments", default="", help="those with this in their name alone")
    parser.add_argument("--upgrade-to", default="", help="deaths of an upgrade to this kubelet")
    asked = parser.parse_args()
    moments = OF_AN_UPGRADE if asked.upgrade_to else MOMENTS
    asked.chosen = [one for one in moments if asked.moments in one.name]
    if not asked.chosen:
        names = "; ".join(one.name for one in moments)
        parser.error(f"no moment has {asked.moments!r} in its name; there are: {names}")
    return asked


def _all_of(
    victim: Victim, turns: Sequence[tuple[int, Moment, float]], deaths: list[Death]
) -> None:
    """Each death in turn, into ``deaths``."""
    name = victim.address.name
    changed = victim.prepare()
    tell(f"{name}: an undisturbed run changed {len(changed)} of {len(victim.before)} facts")
    for line in changed:
        tell(f"      {line}")
    for number, moment, delay in turns:
        death = victim.dies(moment, delay)
        deaths.append(death)
        tell(f"{number:2} | {name} | {death}")
        for line in death.differences:
            tell(f"      {line[:300]}")


def main() -> int:
    asked = _asked()
    draw = random.Random(asked.seed)
    turns = [(n, one, draw.uniform(0, one.within)) for n, one in enumerate(asked.chosen, 1)]
    over, deaths = threading.Event(), list[Death]()
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            addresses = nodes(asked.inventory)
            pool = stack.enter_context(ThreadPoolExecutor(len(addresses)))
            stack.callback(over.set)
            futures = []
            for number, address in enumerate(addresses):
                own = folder / address.name
                own.mkdir()
                victim = Victim(address, own, over, asked.upgrade_to)
                mine = turns[number :: len(addresses)]
                futures.append(pool.submit(_all_of, victim, mine, deaths))
            for future in futures:
                future.result()
    except KeyboardInterrupt:
        tell(f"ended after {len(deaths)} deaths")
    right = sum(death.right for death in deaths)
    tell(f"right, without a hand, without any trace: {right} of {len(turns)}")
    return 0 if right == len(turns) else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    raise SystemExit(main())
