"""A whole certify whose runner is killed again and again; and what its node is like each time.

    python -m tests.hil.deaths INVENTORY [--seed 1] [--load 8] [--only MOMENT]

One certification at ``--max-risk reboot`` is begun, killed with SIGKILL at a moment, and resumed
once the node has restored itself; so all moments cost one certification. Nobody does anything to
the node in between. It is compared with a snapshot of its own, which knows nothing of what pinproof
compares.

A moment is a condition on the node (a script that waits) or in the runner (a line that it prints),
and a delay drawn by the seed. Exit status 0 where every death was undone whole.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hil.shell import NodeError
from hil.transport import NodeAddress, connected, nodes

ROOT: Final = Path(__file__).parents[2]
#: Seconds that a runner may be silent here; a user's has 120.
PATIENCE: Final = 40
#: Seconds in which a moment has to come, a node to restore itself, and processors are kept busy.
_COMES, _RESTORES, _BUSY = 600.0, 900.0, 7200.0

#: What changes on a node by itself, or with any login: each was seen to on one that nobody tried.
BY_ITSELF: Final = {
    "/var/lib/kubelet/allocated_pods_state": "the kubelet's own list (docs/hil.md)",
    "/var/lib/kubelet/actuated_pods_state": "the kubelet's own list (docs/hil.md)",
    "/run/systemd/sessions": "a login",
    "/run/systemd/users": "a login",
    "/run/systemd/transient": "the scopes of logins and containers",
    "/run/systemd/units": "the invocation ids of units",
    "/run/systemd/journal": "systemd's own streams",
    "/run/systemd/propagate": "a unit that was started",
    "/run/systemd/timesync": "the clock",
}
_IGNORED: Final = " ".join(f"-path {path} -o" for path in BY_ITSELF).removesuffix(" -o")
SNAPSHOT: Final = rf"""
LC_ALL=C; export LC_ALL
places="/etc /run/systemd /var/lib/kubelet /var/lib/pinproof $(ls -d /run/pinproof* 2>/dev/null)"
find $places \( {_IGNORED} \) -prune -o -printf 'file %p %y %m %U:%G\n' 2>/dev/null
find $places \( {_IGNORED} \) -prune -o -type f -print0 2>/dev/null | xargs -0 sha256sum |
  sed 's/^/content /'
systemctl list-units --all --plain --no-legend --no-pager |
  awk '$1 !~ /^(session-|user|run-user|run-containerd|var-lib-kubelet|cri-|kubepods-|dev-|sys-)/ {{
    print "unit", $1, $2, $3 }}'
systemctl list-unit-files --no-legend --no-pager | awk '{{ print "unit file", $1, $2 }}'
systemctl list-timers --all --no-legend --no-pager | awk '{{ print "timer", $(NF - 1) }}'
systemctl --failed --plain --no-legend --no-pager | awk '{{ print "failed", $1 }}'
find /sys/fs/cgroup \( -path '*/session-*' -o -path '*/user.slice*' \) -prune -o \
  \( -name cpuset.cpus -o -name cpuset.cpus.partition -o -name cpu.max \) -print |
  grep -E 'kubepods|kubelet|containerd' | while read -r f; do echo "cgroup $f $(cat "$f")"; done
echo "online $(cat /sys/devices/system/cpu/online)"
ctr -n k8s.io containers ls -q 2>/dev/null | sed 's/^/container /'
ctr -n k8s.io tasks ls -q 2>/dev/null | sed 's/^/task /'
awk '$2 !~ /^\/run\/(user|credentials)/ {{ print "mount", $2, $3 }}' /proc/mounts
ps -eo ppid=,args= | awk '$1 != 2 && $2 !~ /systemd/ &&
  $2 !~ /^(ps|awk|sh|sleep|grep|-?bash|sshd:|find|xargs|\(sd-pam\))$/ {{
    $1 = ""; print "process" $0 }}' | grep -v -e 'sed s' -e '^process /bin/sh$'
ps -eo args= | grep -e '[n]ode[.]sh' -e '[p]inproof-dead-man[.]sh' | grep -v places= |
  sed 's/^/ours /'
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """When a runner dies. ``node`` waits on the node until it has come; ``said`` is what the runner
    prints by then; ``ends`` that it is asked to end first (SIGTERM), so that it restores. The delay
    is drawn from 0 to ``within`` seconds."""

    name: str
    node: str = ""
    said: str = ""
    ends: bool = False
    within: float = 3.0


def _until(condition: str) -> str:
    return f"until {condition}; do sleep 0.1; done"


_HELD: Final = "[ -d /var/lib/pinproof/journal ]"
_POD: Final = "ls /etc/kubernetes/manifests/pinproof-* >/dev/null 2>&1"
_CONFIG: Final = "! cmp -s /var/lib/kubelet/config.yaml /run/deaths-config"
_STOPPED: Final = f'{_HELD} && [ "$(systemctl is-active kubelet)" != active ]'
_OFFLINE: Final = '[ "$(cat /sys/devices/system/cpu/online)" != "$(cat /run/deaths-online)" ]'
_OTHER_BOOT: Final = "[ ! -e /run/deaths-online ]"

#: In the order in which they are met soonest.
MOMENTS: Final = (
    Moment("while it takes the node", _until("[ -d /var/lib/pinproof ]"), within=1.0),
    Moment("while it takes the node", said="reaching", within=4.0),
    Moment("while a pod comes", _until(_POD), within=1.0),
    Moment("while pods come and go", _until(_POD), within=8.0),
    Moment("after a reload", f"{_until(_POD)}; systemctl daemon-reload"),
    Moment("after a restart of systemd", f"{_until(_POD)}; systemctl daemon-reexec"),
    Moment("while the kubelet is stopped", _until(_STOPPED), within=0.5),
    Moment("while the configuration is another", _until(f"{_HELD} && {_CONFIG}"), within=1.0),
    Moment("while the kubelet starts", _until(f"{_HELD} && {_CONFIG}"), within=6.0),
    Moment("while it restores", said="restoring", ends=True, within=1.0),
    Moment("while it restores", said="restoring", ends=True, within=4.0),
    Moment("while it leaves", f"{_until(_HELD)}; {_until(f'! {_HELD}')}", ends=True, within=0.3),
    Moment("after a reload, while the kubelet is stopped",
           f"{_until(_STOPPED)}; systemctl daemon-reload", within=0.5),
    Moment("in any step", _until(_HELD), within=30.0),
    Moment("in any step", _until(_HELD), within=60.0),
    Moment("while a CPU is offline", _until(f"{_HELD} && {_OFFLINE}"), within=1.0),
    Moment("while a CPU is offline, after a reload",
           f"{_until(f'{_HELD} && {_OFFLINE}')}; systemctl daemon-reload"),
    Moment("in the reboot", said="waiting for “reboot", within=8.0),
    Moment("after the reboot", _until(_OTHER_BOOT), within=3.0),
    Moment("after the reboot", _until(_OTHER_BOOT), within=15.0),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Death:
    """What came of one: the lines in which the node differs after so many seconds."""

    moment: Moment
    delay: float
    seconds: float
    differences: tuple[str, ...]
    missed: str = ""


def snapshot(address: NodeAddress) -> set[str]:
    """How the node is. Raises :class:`hil.shell.NodeError`."""
    with connected(address) as shell:
        text = shell.run(SNAPSHOT, deadline=240).text
    assert text.count("\n") > 500, text
    return {*text.splitlines()}


class Runner:
    """A certification that can be killed; it goes on where the one before was."""

    _CODE = (
        "from hil.safety import Guarded; from pinproof.cli import main; "
        f"Guarded.__init__.__kwdefaults__['patience'] = {PATIENCE}.0; main()"
    )

    def __init__(self, inventory: str, out: Path) -> None:
        words = ["certify", inventory, "--max-risk", "reboot", "--level", "extended", "--resume"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", self._CODE, *words, "--report", str(out)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip())

    @property
    def over(self) -> bool:
        """It has ended by itself."""
        return self._process.poll() is not None

    def ask_to_end(self) -> None:
        """As Ctrl-C does."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """It and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reading.join(5)


class _NeverCame(Exception):
    """The moment did not come."""


def _wait(done: Callable[[], bool], runner: Runner, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not done():
        if runner.over:
            raise _NeverCame("the certification ended before")
        if time.monotonic() > end:
            raise _NeverCame(f"it did not come in {seconds:.0f} s")
        time.sleep(0.05)


def _reach(moment: Moment, runner: Runner, address: NodeAddress) -> None:
    """Wait until the moment has come. Raises :class:`_NeverCame`."""
    if moment.ends:
        _wait(lambda: _on_node(address, _HELD), runner, _COMES)
        time.sleep(4)
    watch = None
    if moment.node:
        watch = threading.Thread(target=_watch, args=(address, moment.node), daemon=True)
        watch.start()
        time.sleep(1 if moment.ends else 0)
    if moment.ends:
        runner.ask_to_end()
    if moment.said:
        _wait(lambda: any(moment.said in line for line in runner.lines), runner, _COMES)
    if watch is not None:
        alive = watch
        _wait(lambda: not alive.is_alive(), runner, _COMES)


def _watch(address: NodeAddress, script: str) -> None:
    """Run a script that waits; a node that boots in between is asked again."""
    end = time.monotonic() + _COMES
    while time.monotonic() < end:
        with suppress(NodeError), connected(address) as shell:
            if shell.run(script, deadline=_COMES).status == 0:
                return
        time.sleep(0.5)


def _on_node(address: NodeAddress, condition: str) -> bool:
    with suppress(NodeError), connected(address) as shell:
        return shell.run(condition).status == 0
    return False


def die(
    moment: Moment, delay: float, inventory: str, address: NodeAddress, out: Path, before: set[str]
) -> Death:
    """One death, and what came of it."""
    mark = "cat /sys/devices/system/cpu/online >/run/deaths-online; "
    mark += "cp /var/lib/kubelet/config.yaml /run/deaths-config"
    with connected(address) as shell:
        shell.run(mark)
    runner, missed = Runner(inventory, out), ""
    try:
        _reach(moment, runner, address)
        time.sleep(delay)
    except _NeverCame as error:
        missed = f"{error}: {' / '.join(runner.lines[-3:])}"
    finally:
        runner.kill()
    began = time.monotonic()
    next_word = 60.0
    differences: list[str] = ["it cannot be reached"]
    while time.monotonic() - began < _RESTORES:
        time.sleep(5)
        with suppress(NodeError):
            if _on_node(address, "[ ! -e /var/lib/pinproof ]"):
                differences = sorted(snapshot(address) ^ before)
                if not differences:
                    break
                if time.monotonic() - began > next_word:
                    next_word += 60
                    tell(f"   not yet: {_first(differences, before)}")
    return Death(moment, delay, time.monotonic() - began, tuple(differences), missed)


@contextmanager
def load(processes: int) -> Iterator[None]:
    """So many processors' worth of work beside it, which ends with this."""
    code = f"import time; end = time.monotonic() + {_BUSY}\nwhile time.monotonic() < end: pass"
    busy = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(processes)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def _first(differences: Sequence[str], before: set[str]) -> str:
    """The first twenty, a line each."""
    return "".join(
        f"\n      {'-' if one in before else '+'} {one[:160]}" for one in differences[:20]
    )


def tell(line: str) -> None:
    """On stdout, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("inventory", help="of one node of the lab, which nobody else uses")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--load", type=int, default=0, help="busy processes beside it")
    parser.add_argument("--only", default="", help="moments whose name has this in it")
    asked = parser.parse_args()
    (address,) = nodes(asked.inventory)
    chosen = [one for one in MOMENTS if asked.only in one.name]
    if not chosen:
        parser.error(f"no moment has {asked.only!r} in its name")
    draw = random.Random(asked.seed)
    right = 0
    with tempfile.TemporaryDirectory() as folder, load(asked.load):
        before = snapshot(address)
        for number, moment in enumerate(chosen, 1):
            delay = draw.uniform(0, moment.within)
            death = die(moment, delay, asked.inventory, address, Path(folder), before)
            good = not death.differences and not death.missed
            right += good
            said = "right" if good else death.missed or "DIFFERS"
            tell(
                f"{number:2} of {len(chosen)}  {moment.name}, {delay:.1f} s later: {said}, "
                f"after {death.seconds:.0f} s"
            )
            if death.differences:
                tell(_first(death.differences, before))
    tell(f"right, without a hand, without any trace: {right} of {len(chosen)}")
    return 0 if right == len(chosen) else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    raise SystemExit(main())
