"""What a run leaves on a node wherever it dies: the dead-man timer takes all of it away, itself
too; and a step never meets somebody else who restores the node.

The service manager is a stand-in: :meth:`Node.fires` runs what the unit's file names. A booted
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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conformance import secret
from hil.inspection import NodeFacts
from hil.safety import Guarded, LeaseLost, NodeBusy, NotRestored, RemoveFile, Risk, WriteFile
from hil.shell import NodeError, NodeUnfit
from hil.transport import connected
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


class Node(FakeNode):
    """A node made of files, and what a run of which nothing more is heard leaves on it."""

    def place(self, name: str = "") -> Path:
        return self.root / "var/lib/pinproof" / name

    def lease_ends(self) -> None:
        lease = self.place("lease")
        if lease.exists():
            owner, boot, *_ = lease.read_text().split()
            lease.write_text(f"{owner} {boot} 0 4\n")

    @property
    def differences(self) -> str:
        file = self.place("differences")
        return file.read_text() if file.exists() else ""

    def now(self, seconds: int) -> None:
        """The clock since boot, from now on."""
        self.file("/proc/uptime", f"{seconds}.00 1.0\n")

    def unsettle(self) -> None:
        """A file is not as the run found it."""
        self.file(OWN, "not settled yet", 0o600)

    def settle(self) -> None:
        self.file(OWN, "kind: Pod\n", 0o600)

    def dies_unsettled(self) -> None:
        """A run dies 1000 s after the boot, and its node cannot be restored before it settles."""
        self.now(1000)
        self.dies().offline(5)
        self.unsettle()

    @property
    def unit(self) -> str:
        """Of the dead-man timer, without a suffix."""
        return f"{self.root}/run/systemd/system/pinproof-dead-man"

    def fires(self) -> int:
        """Run what the timer runs; its exit status. A service that failed stays."""
        (command,) = re.findall("^ExecStart=(.*)$", Path(f"{self.unit}.service").read_text(), re.M)
        done = subprocess.run(command.split(), env=self.environment, check=False)
        if done.returncode:
            self.file("/fake/failed", "")
        return done.returncode

    def looks(self, *moments: int) -> None:
        """The timer fires at these moments, and goes on."""
        for moment in moments:
            self.now(moment)
            assert self.fires() == 0, moment

    @property
    def timer_is_set(self) -> bool:
        return Path(f"{self.unit}.timer").exists()

    @property
    def failed(self) -> bool:
        return (self.root / "fake/failed").exists()

    def systemctl_begins(self, case: str) -> None:
        """Its service manager looks at this case first."""
        program = self.root / "fake/bin/systemctl"
        text = program.read_text().replace("case $* in", f"case $* in {case}\nesac\ncase $* in", 1)
        program.write_text(text)


@pytest.fixture
def fake(tmp_path: Path) -> Node:
    return Node(tmp_path / "root")


@pytest.fixture
def node(fake: Node) -> Node:
    """One whose service manager has timers."""
    (fake.root / "fake/bin/systemctl").rename(fake.root / "fake/systemctl")
    text = _CTL.replace("@ROOT@", str(fake.root)).replace("@UNIT@", fake.unit)
    fake.file("/fake/bin/systemctl", text, 0o755)
    return fake


def test_a_restored_node_has_no_unit_of_ours(node: Node) -> None:
    """Nor one that failed, which a node's monitoring would show for ever."""
    with node.unchanged():
        node.dies().offline(5)
        assert node.fires() == 0  # its lease has not ended
        assert (node.root / "sys/devices/system/cpu/cpu5/online").read_text() == "0\n"
        node.lease_ends()
        assert node.fires() == 0


def test_a_node_restores_itself_without_the_password_of_sudo(
    node: Node, facts: NodeFacts, tmp_path: Path
) -> None:
    """The timer was set by root. The runner, its connection and the password are gone, and no file
    of the node has the password."""
    password = "correct horse"
    before = node.content()
    server = Operator(password, path=node.environment["PATH"])
    secret.keep(SUDO_PASSWORD, password)
    try:
        with (
            own_sshd(tmp_path / "sshd", operator=server) as running,
            connected(running.address("fake")) as shell,
        ):
            run = Guarded(shell, facts, Risk.CPU_OFFLINE, "dead", patience=4, settle=0)
            run.__enter__()
            run._over.set()
            run.offline(5)
    finally:
        secret.forget(SUDO_PASSWORD)
    node.lease_ends()
    files = [path for path in node.root.rglob("*") if path.is_file()]
    assert not any(password.encode() in path.read_bytes() for path in files)
    assert node.content() != before
    assert node.fires() == 0
    assert node.content() == before


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
    node: Node, left: tuple[str, ...]
) -> None:
    kept = node.place()
    with node.unchanged():
        node.dies(risk=Risk.PODS)
        for path in kept.iterdir():
            if path.name == "journal" and {"done", "begun"} & {*left}:
                path.rename(kept / left[-1])
            elif path.name not in left:
                subprocess.run(["rm", "-rf", str(path)], check=True)
        if left == ("node.sh.new",):
            (kept / "node.sh.new").write_text("half of it")
        if left:
            node.lease_ends()
            for one in (*kept.iterdir(), kept):
                os.utime(one, (1_000_000_000, 1_000_000_000))
        else:
            kept.rmdir()
        assert node.fires() == 0
    assert not kept.exists()


@pytest.mark.parametrize(
    ("risk", "static", "stays"),
    [(Risk.KUBELET_RESTART, False, True), (Risk.PODS, True, True), (Risk.PODS, False, False)],
)
def test_a_node_that_boots_by_itself_is_restored(
    node: Node, risk: Risk, static: bool, stays: bool
) -> None:
    """Its timer is gone then; what a run wrote to its disk is there."""
    with node.unchanged():
        run = Guarded(node.shell(), node.facts(), risk, "dead", static_pods=static, settle=0)
        run.__enter__()
        run._over.set()
        unit = node.root / "etc/systemd/system/pinproof-dead-man-boot.service"
        assert unit.exists() is stays
        if not stays:
            node.lease_ends()
            assert node.fires() == 0
            return
        boot_id = node.root / "proc/sys/kernel/random/boot_id"
        before = boot_id.read_text()
        boot_id.write_text("another\n")
        node.now(100_000)
        (command,) = re.findall("^ExecStart=(.*)$", unit.read_text(), re.M)
        assert subprocess.run(command.split(), env=node.environment, check=False).returncode == 0
        boot_id.write_text(before)
        (node.root / "proc/uptime").unlink()


def test_a_number_of_another_program_is_not_killed(fake: FakeNode) -> None:
    """Where there is no service manager, the timer is a process, whose number may be another's
    after a boot."""
    (fake.root / "run/systemd/system").rmdir()
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        fake.dies(120, Risk.PODS)
        number = fake.root / "var/lib/pinproof/dead-man"
        os.killpg(int(number.read_text()), signal.SIGKILL)
        number.write_text(f"{bystander.pid}\n")
        assert fake.restore(force=True)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_units_without_the_folder_are_known(node: Node) -> None:
    """To probe and to restore: a run of an earlier pinproof may have left them."""
    with node.unchanged():
        node.dies(risk=Risk.REBOOT)
        shutil.rmtree(node.place())
        found = node.facts().leftovers
        assert [path.rpartition("/")[2] for path in found] == [
            "pinproof-dead-man.sh",
            "pinproof-dead-man.timer",
            "pinproof-dead-man.service",
            "pinproof-dead-man-boot.service",
            "pinproof.conf",
        ]
        assert node.restore()
    assert not node.restore()


def test_a_node_that_settles_late_is_restored_by_itself(node: Node) -> None:
    """Each attempt comes later than the one before; what differs is told until nothing does."""
    before = node.content()
    node.dies_unsettled()
    node.looks(1100)
    assert "After attempt 1, " in node.differences
    assert f"{OWN}: was " in node.differences
    told = node.left_by_a_run()
    assert any(one.startswith("not restored: After attempt 1, ") for one in told)
    node.looks(1110)  # 15 s have not passed
    assert "After attempt 1, " in node.differences
    node.looks(1116)
    assert "After attempt 2, " in node.differences
    node.settle()
    node.looks(1130)  # 30 s have not passed
    assert node.timer_is_set
    node.looks(1150)
    node.file("/proc/uptime", "0 0\n").unlink()
    assert node.content() == before
    assert not node.failed


def test_a_run_whose_restoring_fails_leaves_the_rest_to_the_node(node: Node) -> None:
    with node.unchanged():
        run = node.run(Risk.CPU_OFFLINE)
        run.__enter__()
        run.offline(5)
        node.unsettle()
        with pytest.raises(NotRestored, match=r"own\.yaml"):
            run.leave()
        assert node.timer_is_set
        node.settle()
        tried = node.place("tried")
        boot, first, _, attempts = tried.read_text().split()
        tried.write_text(f"{boot} {first} 0 {attempts}\n")
        assert node.fires() == 0


def test_a_node_that_is_not_restored_in_an_hour_has_a_failed_unit_until_it_is(node: Node) -> None:
    before = node.content()
    node.dies_unsettled()
    for moment in range(1100, 4700, 400):
        node.looks(moment)
        assert node.timer_is_set
    node.now(4800)
    assert node.fires() == 76
    assert not node.timer_is_set
    assert node.failed
    assert f"{OWN}: was " in node.differences
    told = node.left_by_a_run()
    assert [one for one in told if one.startswith("the dead-man timer: its last look failed")]
    assert [one for one in told if one.startswith(f"not restored: {OWN}: was ")]
    node.settle()
    assert node.restore()
    node.file("/proc/uptime", "0 0\n").unlink()
    assert node.content() == before


def test_a_kubelet_is_restarted_once_however_often_restoring_is_tried(node: Node) -> None:
    """A restart at each attempt would keep a busy node from coming to rest."""
    node.now(1000)
    config = "/var/lib/kubelet/config.yaml"
    run = node.dies(risk=Risk.KUBELET_RESTART)
    run.change(
        WriteFile(config, b"kind: KubeletConfiguration\n"), then="systemctl restart kubelet.service"
    )
    node.unsettle()
    starts = node.starts
    node.looks(1100, 1200, 1400)
    assert "After attempt 3, " in node.differences
    assert node.starts == starts + 1


@pytest.mark.parametrize("lack", ["its units are gone", "it has not looked for long"])
def test_a_timer_that_looks_no_more_is_set_again(node: Node, lack: str) -> None:
    said: list[str] = []
    with node.guarded(say=said.append) as run:
        said.clear()
        run.touch()
        assert said == []
        if lack == "its units are gone":
            for suffix in (".timer", ".service"):
                Path(node.unit + suffix).unlink()
        else:
            looked = node.place("looked")
            boot, seconds = looked.read_text().split()
            looked.write_text(f"{boot} {int(seconds) - 100}\n")
        run.touch() if lack == "its units are gone" else run.offline(5)
        assert (
            [one for one in said if "timer" in one]
            == [one for one in said if one.endswith(": it is set again")]
            != []
        )
        assert node.timer_is_set
        said.clear()
        run.touch()
        assert said == []


def test_attempts_of_a_run_before_are_not_counted(node: Node) -> None:
    """The next run sweeps what it left, and has an hour of its own where it dies."""
    node.dies_unsettled()
    node.looks(1100)
    node.settle()
    node.now(1105)
    run = node.dies()
    assert node.differences == ""
    run.offline(5)
    node.unsettle()
    node.looks(1000 + 3600 + 500)
    assert node.timer_is_set


def test_a_look_at_the_same_moment_is_no_silence(node: Node) -> None:
    said: list[str] = []
    with node.guarded(say=said.append) as run:
        said.clear()
        script = f"while :; do sh {node.place()}/node.sh dead-man; done"
        words, ignored = ["sh", "-c", script], subprocess.DEVNULL
        with subprocess.Popen(words, env=node.environment, stderr=ignored) as looking:
            for _ in range(40):
                run.touch()
            looking.kill()
        assert said == []


def test_a_look_that_is_killed_while_it_takes_itself_away_leaves_no_unit(node: Node) -> None:
    node.dies()
    shutil.rmtree(node.place())
    node.systemctl_begins('stop*dead-man.timer*) kill -9 "$PPID"; exit ;;')
    node.fires()
    assert not node.timer_is_set
    assert not Path(f"{node.unit}.service").exists()


def test_a_restoring_that_is_killed_as_it_stops_the_timer_leaves_nothing(node: Node) -> None:
    """The session of a runner that is gone is killed at any moment. It was, on a booted node: the
    timer was stopped, and its script was never removed."""
    before = node.content()
    node.dies()
    node.systemctl_begins(
        f"start*dead-man.service*) PINPROOF_UNIT=1 setsid sh {node.root}/run/pinproof-dead-man.sh "
        "</dev/null >/dev/null 2>&1 & exit ;;\n"
        'stop*dead-man.timer*) [ -n "${PINPROOF_UNIT:-}" ] || kill -9 "$PPID"; exit ;;'
    )
    with contextlib.suppress(NodeError):
        node.restore(force=True)
    assert until(lambda: node.content() == before)


def test_its_units_hold_nothing_that_systemd_reads_otherwise(node: Node) -> None:
    """No quote, escape, specifier or variable, and only what systemd 219 knows."""
    node.dies(patience=120)
    units = {suffix: Path(node.unit + suffix).read_text() for suffix in (".timer", ".service")}
    assert not re.search(r"""[\\;%$"'&|]""", "".join(units.values()))
    names = set(re.findall(r"^(\w+)=", "".join(units.values()), re.M))
    assert names == {"Description", "ExecStart", "OnActiveSec", "OnUnitInactiveSec", "AccuracySec"}
    if shutil.which("systemd-analyze") is None:
        lacking.skip("systemd-analyze")
    paths = [node.unit + suffix for suffix in units]
    done = subprocess.run(
        ["systemd-analyze", "verify", *paths], capture_output=True, text=True, check=False
    )
    assert "pinproof-dead-man" not in done.stderr, done.stderr


def test_the_state_file_of_other_cpus_is_not_put_back(fake: Node) -> None:
    """Killed during a CPU upgrade: a kubelet refuses it, so the machine comes first."""
    fake.file(PRESENT, "0-31\n")
    with fake.unchanged():
        run = fake.dies()
        run.change(RemoveFile(STATE))
        run.offline(5)
        fake.file(PRESENT, "0-47\n")
        began = time.monotonic()
        with pytest.raises(NotRestored) as error:
            fake.restore(force=True)
        assert error.value.differences == (
            "its CPUs are 0-47, and were 0-31: boot it as the machine that it was, then restore it",
        )
        assert time.monotonic() - began < 20
        assert not (fake.root / STATE[1:]).exists()
        fake.file(PRESENT, "0-31\n")
        assert fake.restore(force=True)


# ---- steps


def test_a_step_holds_the_lock_to_the_end_of_its_script(fake: Node) -> None:
    """With changes and without; what it leaves running does not hold it."""
    lock = fake.place("lock")
    with fake.guarded() as run:
        for changes in ((), (RemoveFile(STATE),)):
            script = f"flock -n {lock} true; echo $?; setsid sleep 3 >/dev/null 2>&1 &"
            assert run.change(*changes, then=script).text == "1\n"
            assert fake.shell().run(f"flock -n {lock} true").status == 0


def test_a_run_lives_through_a_step_that_is_longer_than_its_lease(fake: Node) -> None:
    """The lease is renewed while the step holds the lock."""
    with fake.guarded(patience=4) as run:
        assert run.change(RemoveFile(STATE), then="sleep 6; echo done").text == "done\n"
        assert not (fake.root / STATE[1:]).exists()


@contextlib.contextmanager
def ended_step(fake: FakeNode, run: Guarded) -> Iterator[None]:
    """While the block runs, so does a step that would change the node in 20 s. It is ended before
    it does."""
    begun = fake.root / "fake/begun"
    witness = fake.root / "etc/kubernetes/manifests/late.yaml"
    script = f": >{begun}; sleep 20; : >{witness}"
    with ThreadPoolExecutor() as pool:
        step = pool.submit(run.change, RemoveFile(STATE), then=script)
        assert until(begun.exists)
        yield
        assert isinstance(step.exception(), NodeError) or step.result().status == -9
    assert not witness.exists()


def test_a_step_that_is_ended_before_its_changes_is_an_error(fake: Node) -> None:
    """A run that went on would have a node that is not as it believes."""
    step = fake.place("step")

    def end() -> None:
        assert until(lambda: step.exists() and step.read_text())  # the shell makes it empty
        os.killpg(int(step.read_text()), signal.SIGKILL)

    with fake.guarded() as run:
        slow = fake.file("/fake/bin/base64", "#!/bin/sh\nsleep 20\n", 0o755)
        step.unlink(missing_ok=True)
        ends = threading.Thread(target=end)
        ends.start()
        with pytest.raises(NodeUnfit, match="fake: a step was ended before its changes were made"):
            run.change(WriteFile(OWN, b"changed"))
        ends.join()
        slow.unlink()


def test_restoring_by_force_ends_a_step_first(fake: Node) -> None:
    """From another machine, while a run is in the middle of one."""
    with fake.unchanged(), ended_step(fake, fake.dies(patience=120)):
        with pytest.raises(NodeBusy):
            fake.restore()
        assert fake.restore(force=True)


def test_a_step_does_not_outlive_its_lease(node: Node) -> None:
    """On a connection that is dead at one end, nobody ends the step but the node itself."""
    with node.unchanged():
        run = node.dies(patience=120)
        with ended_step(node, run):
            node.lease_ends()
            assert node.fires() == 0
    with pytest.raises(LeaseLost):
        run.touch()
