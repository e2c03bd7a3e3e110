"""A guarded node: what is changed is undone, whatever happens in between."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.distributions import distribution_of
from hil.safety import (
    Change,
    InstallFile,
    LeaseLost,
    NodeBusy,
    Note,
    NotRestored,
    OwnPods,
    RemoveFile,
    Risk,
    SetOnline,
    WriteFile,
    refuse_if_held,
    restore_node,
)
from hil.safety.agent import call
from hil.shell import Done, NodeUnfit
from hil.transport.local import LocalShell
from reference.steps import KubeletConfig
from tests.support import lacking
from tests.support.fakenode import PINNED, FakeNode
from tests.support.until import until

CONFIG = "/var/lib/kubelet/config.yaml"
STATE = "/var/lib/kubelet/cpu_manager_state"
CONTAINER = (
    f"/sys/fs/cgroup/kubepods.slice/kubepods-pod{PINNED.replace('-', '_')}.slice"
    "/cri-containerd-abc.scope/cpuset.cpus"
)


def online(fake: FakeNode, cpu: int) -> str:
    return (fake.root / f"sys/devices/system/cpu/cpu{cpu}/online").read_text().strip()


def text(fake: FakeNode, path: str) -> str:
    return (fake.root / path[1:]).read_text()


def test_all_kinds_of_changes_are_made_and_undone(fake: FakeNode) -> None:
    witness = fake.root / "fake/undone"
    os.utime(fake.root / CONFIG[1:], (1_000_000_000, 1_000_000_000))
    told: list[str] = []
    with fake.guarded(say=told.append) as node:
        shell = node._shell
        trips = shell.trips
        done = node.change(
            *distribution_of(node.facts).configure(node.facts, KubeletConfig(policy="none")),
            WriteFile("/etc/kubernetes/manifests/new.yaml", b"\0\xff"),
            WriteFile("/etc/new/folder/file", b"x"),
            RemoveFile(STATE),
            SetOnline(5, False),
            WriteFile(CONTAINER, b"9\n"),
            Note(f"echo done >>{witness}"),
            then="echo after; cat; exit 3",
        )
        assert shell.trips == trips + 1
        assert (done.status, done.text) == (3, "after\n")
        assert "cpuManagerPolicy: none" in text(fake, CONFIG)
        assert (fake.root / CONFIG[1:]).stat().st_mode & 0o777 == 0o600
        assert (fake.root / CONFIG[1:]).stat().st_mtime != 1_000_000_000
        assert (fake.root / "etc/kubernetes/manifests/new.yaml").read_bytes() == b"\0\xff"
        assert not (fake.root / STATE[1:]).exists()
        assert online(fake, 5) == "0"
        assert text(fake, CONTAINER) == "9\n"
        assert not witness.exists()
    assert (fake.root / CONFIG[1:]).stat().st_mtime == 1_000_000_000
    assert witness.read_text() == "done\n"
    assert not (fake.root / "etc/new").exists()
    assert not (fake.root / "var/lib/pinproof").exists()
    assert fake.running
    assert {"fake: set CPU 5 offline", f"fake: remove {STATE}", "fake: restoring"} <= {*told}
    assert all(line.isprintable() for line in told)


def test_a_scenario_costs_few_round_trips(fake: FakeNode) -> None:
    run = fake.run(Risk.PODS)
    with run:
        assert run._shell.trips == 1
    assert run._shell.trips == 2


def test_an_error_inside_restores_and_goes_on(fake: FakeNode) -> None:
    with (  # noqa: PT012  - what is raised inside is raised outside
        pytest.raises(NodeUnfit, match="no file"),
        fake.guarded() as node,
    ):
        node.change(RemoveFile(CONFIG))
        node.change(RemoveFile("/etc/kubernetes"))


def test_a_link_keeps_being_one(fake: FakeNode) -> None:
    place = fake.root / CONFIG[1:]
    place.rename(place.with_name("real.yaml"))
    place.symlink_to("real.yaml")
    with fake.guarded() as node:
        node.change(WriteFile(CONFIG, b"a: 1\n"))
        assert place.is_symlink()
        assert place.read_text() == "a: 1\n"
    assert place.is_symlink()
    assert "static" in place.read_text()


def test_the_kubelet_is_restarted_only_where_it_must(fake: FakeNode) -> None:
    """It read settings that are gone, or its files were changed."""
    with fake.guarded() as node:
        node.change(WriteFile("/etc/kubernetes/manifests/a.yaml", b"x"))
        node.change(WriteFile(CONTAINER, b"9\n"), SetOnline(5, False))
    assert fake.starts == 1
    shell = fake.shell()
    with fake.guarded() as node:
        node.change(WriteFile(CONFIG, b"a: 1\n"))
        shell.run("systemctl restart kubelet.service")
        node.change(WriteFile(CONFIG, text(fake, CONFIG).encode()))
    assert fake.starts == 3


@pytest.mark.parametrize(("before", "meanwhile"), [("start", "stop"), ("stop", "start")])
def test_a_kubelet_is_up_or_down_again(fake: FakeNode, before: str, meanwhile: str) -> None:
    shell = fake.shell()
    shell.run(f"systemctl {before} kubelet.service")
    with fake.guarded():
        shell.run(f"systemctl {meanwhile} kubelet.service")
    assert fake.running == (before == "start")


def test_restoring_in_between(fake: FakeNode) -> None:
    state = text(fake, STATE)
    with fake.guarded() as node:
        for cpu in (5, 6):
            node.offline(cpu)
            node.change(RemoveFile(STATE))
            node.restore()
            assert (online(fake, cpu), text(fake, STATE)) == ("1", state)
        node.offline(7)


def test_what_could_not_be_restored_is_listed(fake: FakeNode) -> None:
    fake.file("/etc/default/kubelet", "A=1\n")
    with (  # noqa: PT012  - what is raised is raised on leaving
        pytest.raises(NotRestored, match="/etc/default/kubelet") as caught,
        fake.run(Risk.PODS),
    ):
        fake.file("/etc/default/kubelet", "A=2\n")
        (fake.root / CONTAINER[1:]).write_text("2\n")
    differences = caught.value.differences
    assert len(differences) == 2
    assert f"{CONTAINER}: was 2-3, is 2" in differences
    assert "node.sh restore" in caught.value.manual
    with pytest.raises(NotRestored), fake.run(Risk.CPU_OFFLINE):
        pass
    fake.file("/etc/default/kubelet", "A=1\n")
    (fake.root / CONTAINER[1:]).write_text("2-3\n")
    with fake.run(Risk.CPU_OFFLINE):
        pass


def test_cpus_that_must_stay_online(fake: FakeNode) -> None:
    with fake.guarded() as node:
        for cpu, why in ((0, "it is CPU 0"), (16, "reserved"), (2, "kube-system/pinned")):
            with pytest.raises(NodeUnfit, match=f"CPU {cpu} stays online: .*{why}"):
                node.change(WriteFile("/etc/x", b""), SetOnline(5, False), SetOnline(cpu, False))
        assert online(fake, 5) == "1"
        assert not (fake.root / "etc/x").exists()


def test_reserved_quantities_count_too(fake: FakeNode) -> None:
    """The kubelet takes the CPUs for them as for any container."""
    config = text(fake, CONFIG).replace("reservedSystemCPUs: 0,16", "systemReserved: {cpu: 1500m}")
    fake.file(CONFIG, config, 0o600)
    with fake.guarded() as node, pytest.raises(NodeUnfit, match="CPU 16 stays online"):
        node.offline(16)


@pytest.mark.parametrize(
    ("risk", "change", "message"),
    [
        (Risk.PODS, SetOnline(5, False), "needs --max-risk cpu-offline"),
        (Risk.PODS, InstallFile("/opt/a", "/opt/b"), "needs --max-risk kubelet-restart"),
        (Risk.READ_ONLY, WriteFile("/etc/x", b""), "read-only run changes nothing"),
    ],
)
def test_a_risk_that_was_not_taken(
    fake: FakeNode, risk: Risk, change: Change, message: str
) -> None:
    with fake.guarded(risk) as node, pytest.raises(NodeUnfit, match=message):
        node.change(change)


def test_a_lease_keeps_two_runs_apart(fake: FakeNode) -> None:
    with fake.guarded() as first:
        first.change(WriteFile("/etc/x", b"1"))
        for _ in range(2):
            with pytest.raises(NodeBusy, match=r"held by test-[0-9a-f]{6} for \d+ s"):
                fake.run(Risk.PODS).__enter__()
            assert text(fake, "/etc/x") == "1"
    with fake.guarded():
        pass


def test_silence_restores_the_node(fake: FakeNode) -> None:
    """The dead-man timer; and who wakes up afterwards is told, and does nothing."""
    with fake.unchanged():
        node = fake.dies()
        node.offline(5)
        assert online(fake, 5) == "0"
        assert until(lambda: not (fake.root / "var/lib/pinproof").exists())
    with pytest.raises(NodeUnfit):
        node.offline(6)
    assert online(fake, 6) == "1"


def test_a_new_boot_gives_the_runner_time(fake: FakeNode) -> None:
    """Times are since boot; a lease of an earlier one holds for as long again, and no longer."""
    fake.file("/proc/uptime", "700.00 1.0\n")
    node = fake.dies(120)
    fake.file("/proc/sys/kernel/random/boot_id", "another\n")
    fake.file("/proc/uptime", "60.00 1.0\n")
    said = r"is held by dead-[0-9a-f]* for 60 s more"
    with pytest.raises(NodeBusy, match=said), fake.guarded():
        pass
    for refused in (refuse_if_held, restore_node):
        with pytest.raises(NodeBusy, match=said):
            refused(fake.shell(), root=str(fake.root))
    node.offline(5)
    fake.file("/proc/uptime", "700.00 1.0\n")
    assert fake.shell().run(call(str(fake.root), "dead-man")).status == 0
    assert online(fake, 5) == "1"
    with pytest.raises(LeaseLost):
        node.touch()
    with pytest.raises(LeaseLost):
        node.__exit__(None, None, None)


@pytest.fixture
def small(fake: FakeNode, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Where pinproof keeps what it has to undo: a file system of this size."""
    place = fake.root / "var/lib/pinproof"
    place.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={request.param}", "tmpfs", str(place)]
    if subprocess.run(mount, check=False).returncode:
        lacking.skip("small file system")
    with fake.unchanged():
        try:
            yield place
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("small", ["64k"], indirect=True)
def test_a_full_disk_changes_nothing(fake: FakeNode, small: Path) -> None:
    """One clear line; what was there stays, and nothing is left of ours."""
    with pytest.raises(NodeUnfit, match="full"), fake.guarded():
        pass
    (small / "filler").unlink(missing_ok=True)
    assert [one.name for one in small.iterdir()] == []


@pytest.mark.parametrize("small", ["1m"], indirect=True)
def test_a_disk_that_fills_up_later(fake: FakeNode, small: Path) -> None:
    """What was changed before is undone: nothing needs more room than there was."""
    with fake.guarded() as node:
        node.change(WriteFile(CONFIG, b"a: 1\n"))
        filler = os.open(small / "filler", os.O_WRONLY | os.O_CREAT)
        with contextlib.suppress(OSError):
            while True:
                os.write(filler, b"\0" * 512)
        os.close(filler)
        with pytest.raises(NodeUnfit, match="full"):
            node.change(WriteFile("/etc/kubernetes/manifests/own.yaml", b"x" * 5000))
        assert text(fake, "/etc/kubernetes/manifests/own.yaml") == "kind: Pod\n"


class Stuck(LocalShell):
    """A connection in disorder."""

    asked = 0

    def __init__(self) -> None:
        super().__init__("stuck")

    def run(self, script: str, **_: object) -> Done:
        Stuck.asked += 1
        raise RuntimeError("Key-exchange timed out waiting for key negotiation")


def pod_comes(fake: FakeNode, uid: str) -> str:
    """A pod gets exclusive CPUs. The state file, with its entry."""
    (fake.root / f"var/lib/kubelet/pods/{uid}").mkdir()
    state = text(fake, STATE).replace('{"5f', f'{{"{uid}": {{"main": "4"}}, "5f')
    (fake.root / STATE[1:]).write_text(state)
    return state


def test_pods_that_came_meanwhile_keep_their_cpus(fake: FakeNode) -> None:
    """The state file of then knows nothing of them: it is not put back."""
    uid = "77777777-0000-4000-8000-000000000001"
    with pytest.raises(NotRestored, match="cpu_manager_state"), fake.run(Risk.KUBELET_RESTART):
        state = pod_comes(fake, uid)
    assert text(fake, STATE) == state


def test_our_own_pods_are_no_newcomers(fake: FakeNode) -> None:
    """A kubelet that crash-loops on their state never takes their folders away."""
    uid = "77777777-0000-4000-8000-000000000002"
    before = text(fake, STATE)
    manifest = json.dumps({"kind": "Pod", "metadata": {"uid": uid}}, indent=1)
    with fake.run(Risk.KUBELET_RESTART) as node:
        node.change(WriteFile("/etc/kubernetes/manifests/pinproof-a.yaml", manifest.encode()))
        assert pod_comes(fake, uid) != before
    assert text(fake, STATE) == before


@pytest.mark.parametrize(("foreign", "patience"), [(False, 20.0), (False, 0.0), (True, 20.0)])
def test_cgroups_of_our_own_pods_may_go_late(
    fake: FakeNode, foreign: bool, patience: float
) -> None:
    """A good run on a slow node is no failure; anything else that differs is one at once."""
    before = fake.content()
    node = fake.run(Risk.PODS)
    node.__enter__()
    uid = "6a1b0c1e-0000-4000-8000-000000000009"
    manifest = f'{{"metadata": {{"uid": "{uid}"}}}}'.encode()
    node.change(WriteFile("/etc/kubernetes/manifests/ours.yaml", manifest))
    named = (uid.replace("9", "8") if foreign else uid).replace("-", "_")
    late = f"/sys/fs/cgroup/kubepods.slice/kubepods-pod{named}.slice/cpuset.cpus"
    sandbox = fake.file(late, "\n")
    going = threading.Timer(3, lambda: shutil.rmtree(sandbox.parent))
    going.start()
    with contextlib.nullcontext() if patience and not foreign else pytest.raises(NotRestored):
        node.leave(patience=patience)
    went_first = not sandbox.exists()
    going.cancel()
    going.join()
    assert went_first == (patience > 0 and not foreign)
    if went_first:
        assert fake.content() == before


def test_a_container_that_is_created_again_is_no_difference(fake: FakeNode) -> None:
    """As after a boot: its pod's cgroup is compared, and each container's that is still there."""
    with fake.run(Risk.PODS):
        scope = (fake.root / CONTAINER[1:]).parent
        scope.rename(scope.with_name("cri-containerd-new.scope"))
    with pytest.raises(NotRestored, match=r"slice/cpuset\.cpus is gone"), fake.run(Risk.PODS):
        shutil.rmtree(scope.parent)


def test_pods_of_our_namespace_are_no_newcomers(fake: FakeNode) -> None:
    """An API server gave them their uids: the folders of their logs tell whose they are."""
    uid = "77777777-0000-4000-8000-000000000003"
    before = text(fake, STATE)
    with fake.run(Risk.KUBELET_RESTART) as node:
        node.change(OwnPods("pinproof-x1"))
        (fake.root / f"var/log/pods/pinproof-x1_pinproof-a_{uid}").mkdir()
        pod_comes(fake, uid)
    assert text(fake, STATE) == before
    with pytest.raises(ValueError, match="no name of a namespace"), fake.run(Risk.PODS) as node:
        node.change(OwnPods("$(reboot)"))


def test_pods_beside_our_namespace_are_newcomers(fake: FakeNode) -> None:
    uid = "77777777-0000-4000-8000-000000000004"
    (fake.root / f"var/log/pods/pinproof-x12_web_{uid}").mkdir()
    run = fake.run(Risk.KUBELET_RESTART)
    run.__enter__()
    run.change(OwnPods("pinproof-x1"))
    state = pod_comes(fake, uid)
    with pytest.raises(NotRestored, match="cpu_manager_state"):
        run.leave()
    assert text(fake, STATE) == state


@pytest.mark.parametrize("state", ["auto-restart", "start", ""])
def test_a_kubelet_that_is_neither_up_nor_down_is_left_alone(fake: FakeNode, state: str) -> None:
    """Its run could not tell how to leave it. The same where systemd does not answer."""
    facts = fake.facts()
    if state:
        fake.file("/fake/show/SubState", state)
    else:
        program = fake.root / "fake/bin/systemctl"
        program.write_text(program.read_text().replace("  show)", "  show) exit 1 ;;\n  none)"))
    refused = pytest.raises(NodeUnfit, match="the kubelet is neither up nor down")
    with fake.unchanged(), refused, fake.run(Risk.PODS, facts=facts):
        pass
    assert fake.running


def test_an_old_systemd_restarts_no_kubelet(fake: FakeNode) -> None:
    """It would leave it stopped: ``systemctl show --value`` came with 230."""
    program = fake.root / "fake/bin/systemctl"
    program.write_text(program.read_text().replace("systemd 252 (252.39-1)", "systemd 219"))
    facts = fake.facts()
    said = distribution_of(facts).cannot_restart(facts)
    assert said == "systemd 219 does not say enough of a unit; 236 does"
    with fake.guarded(Risk.PODS, facts=facts) as node:
        node.change(WriteFile("/etc/kubernetes/manifests/a.yaml", b"x"))
    assert fake.running


def test_a_renewal_that_goes_wrong_in_any_way_is_not_the_last(fake: FakeNode) -> None:
    run = fake.run(Risk.PODS, patience=4.0)
    with contextlib.suppress(LeaseLost), run:  # where the host is busy, the lease may end
        run._shell = Stuck()
        assert until(lambda: Stuck.asked > 1)
        run._shell = fake.shell()


def test_a_parent_cgroup_gets_its_cpus_back(fake: FakeNode) -> None:
    """A kubelet of policy none writes them, and one of policy static leaves them there. What
    systemd remembers it would write again, and it remembers that nothing is set, too: it keeps no
    file of that."""
    program = fake.root / "fake/bin/systemctl"
    told = fake.root / "run/systemd/transient/kubepods.slice.d/50-AllowedCPUs.conf"
    sets = f'case $* in set-property*AllowedCPUs=*) echo "$*" >{told}; exit ;; esac\ncase $* in'
    program.write_text(program.read_text().replace("case $* in", sets, 1))
    fake.file("/run/systemd/system/.there", "")
    fake.file("/run/systemd/transient/kubepods.slice.d/50-CPUWeight.conf", "[Slice]\n")
    with fake.guarded(Risk.KUBELET_RESTART, settle=3):
        fake.file("/sys/fs/cgroup/kubepods.slice/cpuset.cpus", "0-7\n")
        told.write_text("[Slice]\nAllowedCPUs=0-7\n")


def test_hostile_names_reach_no_shell(fake: FakeNode) -> None:
    name = "/etc/kubernetes/manifests/$(touch hacked)'\"; touch hacked #.yaml"
    with fake.guarded() as node:
        node.change(WriteFile(name, b"$(touch hacked)"))
        assert text(fake, name) == "$(touch hacked)"
    assert not Path("hacked").exists()
    with pytest.raises(ValueError, match="no absolute path"):
        node.change(WriteFile("../x", b""))


def test_whoever_has_no_flock_is_refused(fake: FakeNode) -> None:
    facts = dataclasses.replace(fake.facts(), tools=frozenset({"base64", "sha256sum"}))
    with pytest.raises(NodeUnfit, match="it has no flock"), fake.guarded(facts=facts):
        pass
