"""What a run leaves on a node wherever it dies: the dead-man timer takes all of it away, itself
too; and a step never meets somebody else who restores the node.

The service manager is a stand-in: :meth:`Timer.fires` runs what the unit's file names. A booted
node has the real one (``test_lab_reload.py``).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conformance import secret
from hil.inspection import NodeFacts, gather
from hil.safety import (
    Guarded,
    LeaseLost,
    NodeBusy,
    NotRestored,
    RemoveFile,
    Risk,
    WriteFile,
    left_by_a_run,
    refuse_if_held,
    restore_node,
)
from hil.shell import NodeError, NodeUnfit
from hil.transport import NodeAddress, connected
from hil.transport.inventory import SUDO_PASSWORD
from tests.support import lacking
from tests.support.fakenode import FakeNode
from tests.support.sshd import Operator, own_sshd
from tests.support.until import until

STATE = "/var/lib/kubelet/cpu_manager_state"
OWN = "/etc/kubernetes/manifests/own.yaml"
PRESENT = "/sys/devices/system/cpu/present"

_CTL = r"""#!/bin/sh
case $* in
  start*pinproof-dead-man.timer*) [ -f @UNIT@.timer ] && [ -f @UNIT@.service ] ; exit ;;
  is-active*pinproof-dead-man.timer*) [ -f @UNIT@.timer ] ; exit ;;
  is-active*pinproof-dead-man-boot*) exit 3 ;;
  is-failed*pinproof-dead-man.service*) [ -f @ROOT@/fake/failed ] ; exit ;;
  reset-failed*pinproof-dead-man.service*) rm -f @ROOT@/fake/failed ;;
esac
case $* in *pinproof-*) exit 0 ;; esac
exec @ROOT@/fake/systemctl "$@"
"""


@dataclass(frozen=True, slots=True)
class Timer:
    """The dead-man timer of a node made of files."""

    fake: FakeNode

    @property
    def unit(self) -> str:
        return f"{self.fake.root}/run/systemd/system/pinproof-dead-man"

    def fires(self) -> int:
        """Run what it runs; its exit status. A service that failed stays."""
        (command,) = re.findall("^ExecStart=(.*)$", Path(f"{self.unit}.service").read_text(), re.M)
        environment = self.fake.environment
        done = subprocess.run(command.split(), env=environment, check=False)
        if done.returncode:
            self.fake.file("/fake/failed", "")
        return done.returncode

    @property
    def is_set(self) -> bool:
        return Path(f"{self.unit}.timer").exists()

    @property
    def failed(self) -> bool:
        return (self.fake.root / "fake/failed").exists()


@pytest.fixture
def timer(fake: FakeNode) -> Timer:
    made = Timer(fake)
    (fake.root / "fake/bin/systemctl").rename(fake.root / "fake/systemctl")
    text = _CTL.replace("@ROOT@", str(fake.root)).replace("@UNIT@", made.unit)
    fake.file("/fake/bin/systemctl", text, 0o755)
    return made


@pytest.fixture
def dies(fake: FakeNode, facts: NodeFacts) -> Iterator[Callable[..., Guarded]]:
    """Takes the node for a run of which nothing is heard from then on."""
    with contextlib.ExitStack() as held:

        def dies(patience: float = 4, risk: Risk = Risk.CPU_OFFLINE) -> Guarded:
            node = Guarded(fake.shell(), facts, risk, "dead", patience=patience, settle=0)
            held.callback(node._over.set)
            node.__enter__()
            node._over.set()
            return node

        yield dies


def place(fake: FakeNode, name: str = "") -> Path:
    return fake.root / "var/lib/pinproof" / name


def _ended(fake: FakeNode) -> None:
    """The lease is over."""
    lease = place(fake, "lease")
    if lease.exists():
        owner, boot, *_ = lease.read_text().split()
        lease.write_text(f"{owner} {boot} 0 4\n")


def _old(folder: Path) -> None:
    for one in (*folder.iterdir(), folder):
        os.utime(one, (1_000_000_000, 1_000_000_000))


def test_a_restored_node_has_no_unit_of_ours(
    fake: FakeNode, timer: Timer, dies: Callable[..., Guarded]
) -> None:
    """Nor one that failed, which a node's monitoring would show for ever."""
    before = fake.content()
    dies().offline(5)
    assert timer.fires() == 0
    assert fake.content() != before
    _ended(fake)
    assert timer.fires() == 0
    assert fake.content() == before


def test_a_node_restores_itself_without_the_password_of_sudo(
    fake: FakeNode, facts: NodeFacts, timer: Timer, tmp_path: Path
) -> None:
    """The timer was set by root. The runner, its connection and the password are gone, and no file
    of the node has the password."""
    password = "correct horse"
    before = fake.content()
    server = Operator(password, path=fake.environment["PATH"])
    secret.keep(SUDO_PASSWORD, password)
    try:
        with own_sshd(tmp_path / "sshd", operator=server) as running:
            address = NodeAddress(
                "fake", running.url, identity=(running.key,), known_hosts=running.known_hosts
            )
            with connected(address) as shell:
                node = Guarded(shell, facts, Risk.CPU_OFFLINE, "dead", patience=4, settle=0)
                node.__enter__()
                node._over.set()
                node.offline(5)
    finally:
        secret.forget(SUDO_PASSWORD)
    _ended(fake)
    files = [path for path in fake.root.rglob("*") if path.is_file()]
    assert not any(password.encode() in path.read_bytes() for path in files)
    assert fake.content() != before
    assert timer.fires() == 0
    assert fake.content() == before


@pytest.mark.parametrize(
    "left",
    [
        pytest.param((), id="the folder is gone"),
        pytest.param(("lock",), id="all but the lock is gone"),
        pytest.param(("node.sh", "lease", "done"), id="the journal is gone"),
        pytest.param(("node.sh", "lease", "begun"), id="there is no journal yet"),
        pytest.param(("node.sh",), id="there is no lease yet"),
        pytest.param(("node.sh.new",), id="the agent is not there yet"),
    ],
)
def test_a_death_while_a_node_is_taken_or_forgotten_leaves_nothing(
    fake: FakeNode, timer: Timer, dies: Callable[..., Guarded], left: tuple[str, ...]
) -> None:
    before = fake.content()
    dies()
    kept = place(fake)
    for path in kept.iterdir():
        if path.name == "journal" and {"done", "begun"} & {*left}:
            path.rename(kept / left[-1])
        elif path.name not in left:
            subprocess.run(["rm", "-rf", str(path)], check=True)
    if left == ("node.sh.new",):
        (kept / "node.sh.new").write_text("half of it")
    if left:
        _ended(fake)
        _old(kept)
    else:
        kept.rmdir()
    assert timer.fires() == 0
    assert fake.content() == before
    assert not kept.exists()


def test_units_without_the_folder_are_known(
    fake: FakeNode, timer: Timer, dies: Callable[..., Guarded]
) -> None:
    """To probe and to restore: a run of an earlier pinproof may have left them."""
    before = fake.content()
    dies(risk=Risk.REBOOT)
    shutil.rmtree(place(fake))
    found = gather(fake.shell(), root=str(fake.root)).leftovers
    assert [path.rpartition("/")[2] for path in found] == [
        "pinproof-dead-man.sh",
        "pinproof-dead-man.timer",
        "pinproof-dead-man.service",
        "pinproof-dead-man-boot.service",
        "pinproof.conf",
    ]
    assert restore_node(fake.shell(), root=str(fake.root))
    assert fake.content() == before
    assert not restore_node(fake.shell(), root=str(fake.root))


def _later(fake: FakeNode, seconds: int) -> None:
    """The node's clock since boot, from now on."""
    fake.file("/proc/uptime", f"{seconds}.00 1.0\n")


def _differs(fake: FakeNode) -> str:
    file = place(fake, "differences")
    return file.read_text() if file.exists() else ""


def test_a_node_that_settles_late_is_restored_by_itself(
    fake: FakeNode, timer: Timer, dies: Callable[..., Guarded]
) -> None:
    """Each attempt comes later than the one before; what differs is told until nothing does."""
    before = fake.content()
    _later(fake, 1000)
    dies().offline(5)
    text = (fake.root / OWN[1:]).read_text()
    fake.file(OWN, "not settled yet", 0o600)
    _later(fake, 1100)
    assert timer.fires() == 0
    assert "After attempt 1, " in _differs(fake)
    assert f"{OWN}: was " in _differs(fake)
    told = left_by_a_run(fake.shell(), root=str(fake.root))
    assert any(one.startswith("not restored: After attempt 1, ") for one in told)
    _later(fake, 1110)  # 15 s have not passed
    assert timer.fires() == 0
    assert "After attempt 1, " in _differs(fake)
    _later(fake, 1116)
    assert timer.fires() == 0
    assert "After attempt 2, " in _differs(fake)
    fake.file(OWN, text, 0o600)
    _later(fake, 1130)  # 30 s have not passed
    assert timer.fires() == 0
    assert timer.is_set
    _later(fake, 1150)
    assert timer.fires() == 0
    fake.file("/proc/uptime", "0 0\n").unlink()
    assert fake.content() == before
    assert not timer.failed


def test_a_run_whose_restoring_fails_leaves_the_rest_to_the_node(
    fake: FakeNode, facts: NodeFacts, timer: Timer
) -> None:
    before = fake.content()
    text = (fake.root / OWN[1:]).read_text()
    node = Guarded(fake.shell(), facts, Risk.CPU_OFFLINE, "test", settle=0)
    node.__enter__()
    node.offline(5)
    fake.file(OWN, "not settled yet", 0o600)
    with pytest.raises(NotRestored, match=r"own\.yaml"):
        node.leave()
    assert timer.is_set
    fake.file(OWN, text, 0o600)
    tried = place(fake, "tried")
    boot, first, _, attempts = tried.read_text().split()
    tried.write_text(f"{boot} {first} 0 {attempts}\n")
    assert timer.fires() == 0
    assert fake.content() == before


def test_a_node_that_is_not_restored_in_an_hour_has_a_failed_unit_until_it_is(
    fake: FakeNode, timer: Timer, dies: Callable[..., Guarded]
) -> None:
    before = fake.content()
    _later(fake, 1000)
    dies().offline(5)
    text = (fake.root / OWN[1:]).read_text()
    fake.file(OWN, "changed by somebody", 0o600)
    for moment in range(1100, 4700, 400):
        _later(fake, moment)
        assert timer.fires() == 0, moment
        assert timer.is_set
    _later(fake, 4800)
    assert timer.fires() == 76
    assert not timer.is_set
    assert timer.failed
    assert f"{OWN}: was " in _differs(fake)
    told = left_by_a_run(fake.shell(), root=str(fake.root))
    assert [one for one in told if one.startswith("the dead-man timer: its last look failed")]
    assert [one for one in told if one.startswith(f"not restored: {OWN}: was ")]
    fake.file(OWN, text, 0o600)
    assert restore_node(fake.shell(), root=str(fake.root))
    fake.file("/proc/uptime", "0 0\n").unlink()
    assert fake.content() == before


def test_a_kubelet_is_restarted_once_however_often_restoring_is_tried(
    fake: FakeNode, timer: Timer, dies: Callable[..., Guarded]
) -> None:
    """A restart at each attempt would keep a busy node from coming to rest."""
    _later(fake, 1000)
    config = "/var/lib/kubelet/config.yaml"
    node = dies(risk=Risk.KUBELET_RESTART)
    node.change(
        WriteFile(config, b"kind: KubeletConfiguration\n"), then="systemctl restart kubelet.service"
    )
    fake.file(OWN, "not settled yet", 0o600)
    starts = fake.starts
    for moment in (1100, 1200, 1400):
        _later(fake, moment)
        assert timer.fires() == 0
    assert "After attempt 3, " in _differs(fake)
    assert fake.starts == starts + 1


@pytest.mark.parametrize("lack", ["its units are gone", "it has not looked for long"])
def test_a_timer_that_looks_no_more_is_set_again(
    fake: FakeNode, facts: NodeFacts, timer: Timer, lack: str
) -> None:
    """With the next sign of life, and the run says so."""
    said: list[str] = []
    with Guarded(fake.shell(), facts, Risk.CPU_OFFLINE, "test", settle=0, say=said.append) as node:
        said.clear()
        node.touch()
        assert said == []
        if lack == "its units are gone":
            for suffix in (".timer", ".service"):
                Path(timer.unit + suffix).unlink()
        else:
            looked = place(fake, "looked")
            boot, seconds = looked.read_text().split()
            looked.write_text(f"{boot} {int(seconds) - 100}\n")
        node.touch() if lack == "its units are gone" else node.offline(5)
        assert (
            [one for one in said if "timer" in one]
            == [one for one in said if one.endswith(": it is set again")]
            != []
        )
        assert timer.is_set
        said.clear()
        node.touch()
        assert said == []


def test_attempts_of_a_run_before_are_not_counted(
    fake: FakeNode, timer: Timer, dies: Callable[..., Guarded]
) -> None:
    """The next run sweeps what it left, and has an hour of its own where it dies."""
    _later(fake, 1000)
    dies().offline(5)
    text = (fake.root / OWN[1:]).read_text()
    fake.file(OWN, "not settled yet", 0o600)
    _later(fake, 1100)
    assert timer.fires() == 0
    fake.file(OWN, text, 0o600)
    _later(fake, 1105)
    node = dies()
    assert _differs(fake) == ""
    node.offline(5)
    fake.file(OWN, "not settled yet", 0o600)
    _later(fake, 1000 + 3600 + 500)
    assert timer.fires() == 0
    assert timer.is_set


def test_a_look_at_the_same_moment_is_no_silence(
    fake: FakeNode, facts: NodeFacts, timer: Timer
) -> None:
    said: list[str] = []
    with Guarded(fake.shell(), facts, Risk.CPU_OFFLINE, "test", settle=0, say=said.append) as node:
        said.clear()
        script = f"while :; do sh {place(fake)}/node.sh dead-man; done"
        words, ignored = ["sh", "-c", script], subprocess.DEVNULL
        with subprocess.Popen(words, env=fake.environment, stderr=ignored) as looking:
            for _ in range(40):
                node.touch()
            looking.kill()
        assert said == []


def test_a_look_that_is_killed_while_it_takes_itself_away_leaves_no_unit(
    fake: FakeNode, timer: Timer, dies: Callable[..., Guarded]
) -> None:
    dies()
    shutil.rmtree(place(fake))
    program = fake.root / "fake/bin/systemctl"
    kills = 'case $* in stop*dead-man.timer*) kill -9 "$PPID"; exit ;; esac\ncase $* in'
    program.write_text(program.read_text().replace("case $* in", kills, 1))
    timer.fires()
    assert not timer.is_set
    assert not Path(f"{timer.unit}.service").exists()


def test_a_restoring_that_is_killed_as_it_stops_the_timer_leaves_nothing(
    fake: FakeNode, timer: Timer, dies: Callable[..., Guarded]
) -> None:
    """The session of a runner that is gone is killed at any moment. It was, on a booted node: the
    timer was stopped, and its script was never removed."""
    before = fake.content()
    dies()
    program = fake.root / "fake/bin/systemctl"
    cases = (
        "case $* in\n"
        f"start*dead-man.service*) PINPROOF_UNIT=1 setsid sh {fake.root}/run/pinproof-dead-man.sh "
        "</dev/null >/dev/null 2>&1 & exit ;;\n"
        'stop*dead-man.timer*) [ -n "${PINPROOF_UNIT:-}" ] || kill -9 "$PPID"; exit ;;\n'
        "esac\ncase $* in"
    )
    program.write_text(program.read_text().replace("case $* in", cases, 1))
    with contextlib.suppress(NodeError):
        restore_node(fake.shell(), root=str(fake.root), force=True)
    assert until(lambda: fake.content() == before)


def test_its_units_hold_nothing_that_systemd_reads_otherwise(
    fake: FakeNode, timer: Timer, dies: Callable[..., Guarded]
) -> None:
    """No quote, escape, specifier or variable, and only what systemd 219 knows."""
    dies(patience=120)
    units = {suffix: Path(timer.unit + suffix).read_text() for suffix in (".timer", ".service")}
    assert not re.search(r"""[\\;%$"'&|]""", "".join(units.values()))
    names = set(re.findall(r"^(\w+)=", "".join(units.values()), re.M))
    assert names == {"Description", "ExecStart", "OnActiveSec", "OnUnitInactiveSec", "AccuracySec"}
    if shutil.which("systemd-analyze") is None:
        lacking.skip("systemd-analyze")
    paths = [timer.unit + suffix for suffix in units]
    done = subprocess.run(
        ["systemd-analyze", "verify", *paths], capture_output=True, text=True, check=False
    )
    assert "pinproof-dead-man" not in done.stderr, done.stderr


def test_the_state_file_of_other_cpus_is_not_put_back(
    fake: FakeNode, dies: Callable[..., Guarded]
) -> None:
    """Killed during a CPU upgrade: a kubelet refuses it, so the machine comes first."""
    fake.file(PRESENT, "0-31\n")
    before = fake.content()
    node = dies()
    node.change(RemoveFile(STATE))
    node.offline(5)
    fake.file(PRESENT, "0-47\n")
    began = time.monotonic()
    with pytest.raises(NotRestored) as error:
        restore_node(fake.shell(), root=str(fake.root), force=True)
    assert error.value.differences == (
        "its CPUs are 0-47, and were 0-31: boot it as the machine that it was, then restore it",
    )
    assert time.monotonic() - began < 20
    assert not (fake.root / STATE[1:]).exists()
    fake.file(PRESENT, "0-31\n")
    assert restore_node(fake.shell(), root=str(fake.root), force=True)
    assert fake.content() == before


def test_after_a_boot_a_lease_is_said_to_last_as_long_as_it_does(
    fake: FakeNode, dies: Callable[..., Guarded]
) -> None:
    fake.file("/proc/uptime", "700.00 1.0\n")
    dies(patience=120)
    fake.file("/proc/sys/kernel/random/boot_id", "another\n")
    fake.file("/proc/uptime", "60.00 1.0\n")
    for refused in (refuse_if_held, restore_node):
        with pytest.raises(NodeBusy, match=r"is held by dead-[0-9a-f]* for 60 s more"):
            refused(fake.shell(), root=str(fake.root))


# ---- steps


def test_a_step_holds_the_lock_to_the_end_of_its_script(fake: FakeNode, facts: NodeFacts) -> None:
    """With changes and without; what it leaves running does not hold it."""
    lock = place(fake, "lock")
    with Guarded(fake.shell(), facts, Risk.CPU_OFFLINE, "test", settle=0) as node:
        for changes in ((), (RemoveFile(STATE),)):
            script = f"flock -n {lock} true; echo $?; setsid sleep 3 >/dev/null 2>&1 &"
            assert node.change(*changes, then=script).text == "1\n"
            assert fake.shell().run(f"flock -n {lock} true").status == 0


def test_a_run_lives_through_a_step_that_is_longer_than_its_lease(
    fake: FakeNode, facts: NodeFacts
) -> None:
    """The lease is renewed while the step holds the lock."""
    with Guarded(fake.shell(), facts, Risk.CPU_OFFLINE, "test", patience=4, settle=0) as node:
        assert node.change(RemoveFile(STATE), then="sleep 8; echo done").text == "done\n"
        assert not (fake.root / STATE[1:]).exists()
    assert (fake.root / STATE[1:]).exists()


class _Step(threading.Thread):
    """A step that would change the node in 20 s, and tells that it has begun."""

    def __init__(self, fake: FakeNode, node: Guarded) -> None:
        super().__init__()
        self.error: NodeError | None = None
        self.status = 0
        self._node = node
        self.begun = fake.root / "fake/begun"
        self.witness = fake.root / "etc/kubernetes/manifests/late.yaml"
        self.start()
        assert until(self.begun.exists)

    def run(self) -> None:
        script = f": >{self.begun}; sleep 20; : >{self.witness}"
        try:
            self.status = self._node.change(RemoveFile(STATE), then=script).status
        except NodeError as error:
            self.error = error


def test_a_step_that_is_ended_before_its_changes_is_an_error(
    fake: FakeNode, facts: NodeFacts
) -> None:
    """A run that went on would have a node that is not as it believes."""
    before = fake.content()
    step = place(fake, "step")

    def end() -> None:
        assert until(lambda: step.exists() and step.read_text())  # the shell makes it empty
        os.killpg(int(step.read_text()), signal.SIGKILL)

    with Guarded(fake.shell(), facts, Risk.CPU_OFFLINE, "test", settle=0) as node:
        slow = fake.file("/fake/bin/base64", "#!/bin/sh\nsleep 20\n", 0o755)
        step.unlink(missing_ok=True)
        ends = threading.Thread(target=end)
        ends.start()
        with pytest.raises(NodeUnfit, match="fake: a step was ended before its changes were made"):
            node.change_file(OWN, "changed")
        ends.join()
        slow.unlink()
    assert fake.content() == before


def test_restoring_by_force_ends_a_step_first(fake: FakeNode, dies: Callable[..., Guarded]) -> None:
    """From another machine, while a run is in the middle of one."""
    before = fake.content()
    step = _Step(fake, dies(patience=120))
    with pytest.raises(NodeBusy):
        restore_node(fake.shell(), root=str(fake.root))
    assert restore_node(fake.shell(), root=str(fake.root), force=True)
    step.join()
    assert step.error is not None or step.status == -9
    assert not step.witness.exists()
    assert fake.content() == before


def test_a_step_does_not_outlive_its_lease(
    fake: FakeNode, timer: Timer, dies: Callable[..., Guarded]
) -> None:
    """On a connection that is dead at one end, nobody ends the step but the node itself."""
    before = fake.content()
    node = dies(patience=120)
    step = _Step(fake, node)
    _ended(fake)
    assert timer.fires() == 0
    step.join()
    assert step.error is not None or step.status == -9
    assert not step.witness.exists()
    assert fake.content() == before
    with pytest.raises(LeaseLost):
        node.touch()
