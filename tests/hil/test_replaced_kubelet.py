"""Another kubelet's program on a node: put in place, taken back, refused, and an upgrade rehearsed
there.

The nodes are made of files, or are the model behind the steps of a real node. A booted node has
its own file, ``test_lab_upgrade.py``.
"""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.kept_files import STATE as STATE_NAME
from conformance.pods import guaranteed
from conformance.subject import (
    SubjectInfo,
    SubjectLostError,
    SubjectNotRestored,
    SubjectSetupError,
    SubjectUsageError,
)
from conformance.upgrading import Leg, Plan, Rehearsed, rehearse
from hil.inspection import NodeFacts, Process, gather, kubelet_of
from hil.observation import Observation
from hil.replaced import STAGED, ReplacedKubelet, brought, chosen
from hil.safety import Change, InstallFile, NotRestored, PutBack, Risk
from hil.session.scripts import Act
from hil.shell import NodeUnfit
from hil.subject import NodeSubject
from pinproof import node_upgrade
from pinproof.certify import _against
from pinproof.node_upgrade import OnNode, certified, upgraded
from reference import CPUSet, Node
from reference.steps import Tamper
from reports.certificate.document import Upgrade
from reports.run import Run
from tests.hil import test_subject_scenarios as made_up
from tests.hil.conftest import Says
from tests.hil.test_subject_scenarios import FakeSubject, ModelMember
from tests.support.certificates import result, run
from tests.support.fakenode import PINNED, FakeNode

KUBELET: Final = "/usr/bin/kubelet"
OTHER: Final = "/opt/other"
SMALL_NODE = True
NEWER: Final = "#!/bin/sh\necho Kubernetes v1.37.0\n"


@pytest.fixture
def old(fake: FakeNode) -> Path:
    """The node's own kubelet, beside which another one lies."""
    fake.file(OTHER, NEWER, 0o600)
    place = fake.root / KUBELET[1:]
    os.utime(place, (1_000_000_000, 1_000_000_000))
    return place


def test_a_program_is_replaced_and_put_back_while_the_run_goes_on(
    fake: FakeNode, old: Path
) -> None:
    """What was never changed is put back by doing nothing."""
    told: list[str] = []
    with fake.guarded(Risk.KUBELET_RESTART, say=told.append) as node:
        node.change(PutBack(KUBELET))
        assert old.stat().st_mtime == 1_000_000_000
        node.change(InstallFile(KUBELET, OTHER))
        assert old.read_text() == NEWER
        assert old.stat().st_mode & 0o777 == 0o755  # of the program that was there
        node.change(PutBack(KUBELET))
        assert "v1.36.4" in old.read_text()
        assert old.stat().st_mtime == 1_000_000_000
        node.change(InstallFile(KUBELET, OTHER))
    assert old.stat().st_mtime == 1_000_000_000
    assert fake.running
    assert {f"fake: replace {KUBELET} by {OTHER}", f"fake: put {KUBELET} back as it was"} <= {*told}


def test_a_kubelet_that_was_replaced_is_started_again_once_its_program_is_back(
    fake: FakeNode, old: Path
) -> None:
    """The one that runs is the other one, whatever lies on the disk."""
    with fake.guarded(Risk.KUBELET_RESTART) as node:
        start = "systemctl stop kubelet.service; systemctl start kubelet.service"
        node.change(InstallFile(KUBELET, OTHER), then=start)
        node.change(PutBack(KUBELET))
        starts = fake.starts
    assert fake.starts == starts + 1


def test_what_the_other_kubelet_had_systemd_remember_is_forgotten(
    fake: FakeNode, old: Path
) -> None:
    """1.37 writes ``MemoryMin`` of the classes of pods, and 1.36 would never take it back. What a
    pod has, goes with the pod."""
    transient, cgroup = "/run/systemd/transient", "/sys/fs/cgroup/kubepods.slice"
    own = fake.file(f"{transient}/kubepods.slice.d/50-CPUWeight.conf", "CPUWeight=1\n")
    least = fake.file(f"{cgroup}/memory.min", "0\n")
    pod = f"kubepods-burstable-pod{PINNED.replace('-', '_')}.slice"
    before = fake.content()
    with fake.run(Risk.KUBELET_RESTART) as node:
        node.change(InstallFile(KUBELET, OTHER))
        new = [
            fake.file(f"{transient}/{name}.d/50-MemoryMin.conf", "MemoryMin=5\n")
            for name in ("kubepods.slice", "kubepods-burstable.slice")
        ]
        theirs = fake.file(f"{transient}/{pod}.d/50-MemoryMin.conf", "MemoryMin=5\n")
        least.write_text("5\n")
        calls = fake.root / "fake/calls"
        calls.write_text("")
    assert [one.exists() for one in (own, *new, theirs)] == [True, False, False, True]
    theirs.unlink()
    assert fake.content() == before
    made = calls.read_text().splitlines()
    assert made.index("stop kubelet.service") < made.index("daemon-reload")
    assert made.index("daemon-reload") < made.index("start kubelet.service")


def test_a_dead_run_s_program_is_taken_away(fake: FakeNode, old: Path) -> None:
    with fake.unchanged():
        fake.dies(120).change(InstallFile(KUBELET, OTHER))
        told = fake.left_by_a_run()
        assert any(one.startswith("changed") and one.endswith(KUBELET) for one in told)
        assert fake.restore(force=True)


def test_a_program_that_is_not_back_is_told(fake: FakeNode, old: Path) -> None:
    """No fingerprint has its sum; its copy in the journal tells."""
    fake.dies(120).change(InstallFile(KUBELET, OTHER))
    old.unlink()
    old.mkdir()  # no file can be renamed to that
    with pytest.raises(NotRestored, match=f"{KUBELET} is not the file that was there before"):
        fake.restore(force=True)


def test_what_is_not_there_replaces_nothing(fake: FakeNode) -> None:
    with (
        pytest.raises(NodeUnfit, match=f"{KUBELET} cannot be written"),
        fake.guarded(Risk.KUBELET_RESTART) as node,
    ):
        node.change(InstallFile(KUBELET, "/opt/gone"))


# -- which program, on which node ----------------------------------------------------------------


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A kubelet on the runner."""
    path = tmp_path / "newer"
    path.write_text(NEWER)
    path.chmod(0o755)
    return path


def subject() -> NodeSubject:
    return NodeSubject.open("ssh://root@node7?max-risk=kubelet-restart")


def test_a_program_is_brought_and_goes_with_the_run(reachable: FakeNode, program: Path) -> None:
    with reachable.unchanged(), closing(subject()) as nodes:
        new = brought(nodes, chosen(str(program), nodes))
        assert (new.info.version, new.info.release) == ("v1.37.0", "1.37")
        staged = reachable.root / STAGED[1:]
        assert staged.read_text() == NEWER
        assert staged.stat().st_mode & 0o111
        # What another kubelet may leave for the next one, and this one cannot read.
        reachable.file("/var/lib/kubelet/memory_manager_state", "of another form")


def refused(program: Path) -> str:
    """Why this program is not put in the place of the node's own, in one line."""
    with closing(subject()) as nodes, pytest.raises(SubjectUsageError) as caught:
        chosen(str(program), nodes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def elf(machine: int) -> bytes:
    return b"\x7fELF\x02\x01\x01" + bytes(11) + machine.to_bytes(2, "little") + bytes(64)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"#!/bin/sh\necho hello\n", "is not a kubelet: asked for", id="no kubelet"),
        pytest.param(elf(22), "it is built for s390x; node7 is ", id="another architecture"),
        pytest.param(
            b"#!/bin/sh\necho Kubernetes v1.36.4\n",
            "is the kubelet that node7 runs (v1.36.4)",
            id="the same",
        ),
        pytest.param(None, "neither a file nor a release", id="no file"),
    ],
)
def test_a_program_that_cannot_be_it_is_refused(
    reachable: FakeNode, program: Path, content: bytes | None, message: str
) -> None:
    if content is None:
        program.unlink()
    else:
        program.write_bytes(content)
    with reachable.unchanged():
        assert message in refused(program)


def _kubelet(**changed: object) -> Callable[[NodeFacts], NodeFacts]:
    def change(facts: NodeFacts) -> NodeFacts:
        kubelet = dataclasses.replace(kubelet_of(facts), **changed)  # type: ignore[arg-type]
        return dataclasses.replace(facts, kubelet=kubelet)

    return change


def _openshift(facts: NodeFacts) -> NodeFacts:
    return dataclasses.replace(
        facts, places=facts.places | {"/etc/machine-config-daemon/currentconfig"}
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (_openshift, "it belongs to the Machine Config Operator, on a read-only /usr"),
        (_kubelet(unit="k0sworker.service"), "it belongs to k0s, which unpacks its own"),
        (_kubelet(unit="rke2-agent.service"), "it belongs to RKE2"),
        (lambda facts: dataclasses.replace(facts, distribution="RKE2"), "it belongs to RKE2"),
        (_kubelet(binary="/usr/local/bin/k3s", embedded=True), "it lives inside of /usr/local/bin"),
        (_kubelet(binary="/hyperkube"), "it lives inside of /hyperkube"),
        (_kubelet(binary="/snap/kubelet/1/kubelet"), "belongs to a snap, which is read-only"),
        (_kubelet(binary="/proc/version/kubelet"), "is not a file of the node itself"),
        # As after an update of its package, or in a container.
        (
            _kubelet(process=Process(os.getpid(), KUBELET, ())),
            "is not the program that runs: that was replaced",
        ),
    ],
)
def test_a_kubelet_that_is_not_the_node_s_own_to_replace(
    reachable: FakeNode,
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
    changed: Callable[[NodeFacts], NodeFacts],
    message: str,
) -> None:
    """Somebody else would put it back, or nobody could write it."""
    facts = changed(gather(reachable.shell("node7"), root=str(reachable.root)))
    monkeypatch.setattr("hil.subject.gather", lambda *_, **__: facts)
    said = refused(program)
    assert said.startswith("node7: its kubelet cannot be replaced: ")
    assert message in said


@pytest.mark.parametrize(
    ("mount", "read_only"),
    [
        ("tmpfs {root}/usr tmpfs ro,nosuid 0 0", True),
        ("tmpfs {root}/usr/bin/kubelet tmpfs rw 0 0", True),
        ("tmpfs {root}/usr tmpfs rw,errors=remount-ro 0 0", False),
        ("tmpfs {root}/us tmpfs ro 0 0", False),
    ],
)
def test_a_file_system_that_is_read_only(
    reachable: FakeNode, program: Path, mount: str, read_only: bool
) -> None:
    """Of the mounts above the program, the lowest decides."""
    mounts = f"root / ext4 rw 0 0\n{mount.format(root=reachable.root)}\n"
    reachable.file("/proc/mounts", mounts)
    if read_only:
        assert "is read-only, or a mount of its own" in refused(program)
        return
    with closing(subject()) as nodes:
        assert chosen(str(program), nodes).path == program


def test_a_program_that_says_something_else_on_the_node(
    reachable: FakeNode, program: Path, tmp_path: Path
) -> None:
    """It is started there before it takes the kubelet's place."""
    program.write_text(f"#!/bin/sh\ncase $0 in {tmp_path}/newer) echo Kubernetes v1.37.0 ;; esac\n")
    with (
        reachable.unchanged(),
        closing(subject()) as nodes,
        pytest.raises(SubjectUsageError, match="asked for --version it said nothing"),
    ):
        brought(nodes, chosen(str(program), nodes))


def test_a_program_that_does_not_arrive(reachable: FakeNode, program: Path) -> None:
    with reachable.unchanged():
        broken = reachable.file("/fake/bin/sha256sum", "#!/bin/sh\nexit 1\n", 0o755)
        with closing(subject()) as nodes:
            one = chosen(str(program), nodes)
            with pytest.raises(SubjectSetupError, match="does not arrive: is the disk full"):
                brought(nodes, one)
        broken.unlink()


# -- an upgrade, on the steps of a real node ------------------------------------------------------


class Upgradable(ModelMember):
    """A node whose kubelet is the model of 1.36, or of 1.37 once that was installed."""

    def _change(self, change: Change) -> None:
        match change:
            case InstallFile(path=path) if path == KUBELET:
                self._hand_over("1.37")
            case PutBack(path=path) if path == KUBELET:
                self._hand_over(made_up.RELEASE)
            case _:
                super()._change(change)

    def _hand_over(self, release: str) -> None:
        self.release = release
        self._node = self._node.handed_over(
            lambda trees, machine, config: Node(trees, machine, config, release=release)
        )

    def texts(self, names: Iterable[str]) -> dict[str, str]:
        assert STATE_NAME in names
        text = self._node.view().state_file
        return {} if text is None else {STATE_NAME: text}


class Moving(Upgradable):
    """What an upgrade may do wrong: the new kubelet has other CPUs written."""

    def act(self, act: Act, *, spin: bool = False, log: bool = False) -> Observation:
        seen = super().act(act, spin=spin, log=log)
        if made_up.START not in act.script or self.release != "1.37":
            return seen
        (pod,) = (name for name in self._node.view().cpusets if name.startswith("pod1-"))
        self._do(Tamper(pod, "c", CPUSet([0, 1])))
        return self._look(spin=spin)


def rehearsed(session: Upgradable) -> Rehearsed:
    nodes = FakeSubject(session)
    new = ReplacedKubelet(SubjectInfo("kubelet:new", "1.37"), nodes)
    return rehearse(nodes, new, planned(session))


def planned(session: Upgradable) -> Plan:
    return Plan(
        session.machine,
        session.own_config,
        [guaranteed("gone", 2), guaranteed("pod1", 2), guaranteed("pod2", "0.5")],
        [guaranteed("later", 2), guaranteed("later2", 2), guaranteed("later3", 2)],
        ("gone",),
    )


def test_an_upgrade_is_rehearsed_on_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """There, back and there again, over the same containers. The certificate has each stage, and no
    path of the runner."""
    made, done = certificate(monkeypatch, Upgradable())
    assert done is not None
    found = done.found
    assert [one.kubelet.release for one in found.stages] == ["1.36", "1.37", "1.36", "1.37"]
    assert (found.broken, found.notes, found.pinned) == ((), (), 1)
    held = [one.view.assignments["pod1"]["c"] for one in found.stages]
    assert len(held[0]) == 2
    assert len({*held}) == 1
    assert [one.restarted for one in found.stages] == [()] * 4
    assert found.stages[1].files[STATE_NAME].left != found.stages[0].files[STATE_NAME].left
    assert (made.outcome, made.named, made.restored) == ("kept", "kubelet", True)
    assert [one.leg for one in made.stages] == ["", *map(str, Leg)]
    assert [one.exclusive["pod1/c"] for one in made.stages] == ["2,10"] * 4
    assert made.kubelet is not None
    assert made.kubelet.release == "1.37"


def test_state_files_of_both_kubelets_are_read_under_the_uids_of_a_server() -> None:
    """Each in its own form, to the byte."""
    session = Upgradable()
    session.pod_source = made_up.ServerPods(session)
    found = rehearsed(session)
    assert (found.broken, found.notes) == ((), ())


# -- the commands ---------------------------------------------------------------------------------


NODE: Final = "ssh://root@node7"
NEEDS: Final = "node7: replacing its kubelet needs --max-risk kubelet-restart"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("certify", NODE, "--upgrade-to", "{program}"), NEEDS),
        (("certify", NODE, "--upgrade-to", "{program}", "--dry-run"), NEEDS),
        (("upgrade", f"node:{NODE}", "{program}"), NEEDS),
        # The node made of files has such a pod.
        (
            ("certify", NODE, "--max-risk", "kubelet-restart", "--upgrade-to", "{program}"),
            "node7: pods hold exclusive CPUs there (pinned): drain it first",
        ),
        (("upgrade", f"node:{NODE}", "1.37", "--pods", "2"), "*not --pods*"),
        (("upgrade", f"node:{NODE}", "1.37", "--model"), "*not --model*"),
        (("upgrade", "1.36", "1.37", "--max-risk", "pods"), "*--max-risk is for a real node*"),
        (
            ("certify", "kubelet:1.36", "--machine", "1s-1n-4c-smt2", "--upgrade-to", "1.37"),
            "*--upgrade-to is for real nodes, not for kubelet:1.36: `pinproof upgrade` rehearses*",
        ),
    ],
)
def test_what_no_node_is_upgraded_for_is_wrong_usage(
    reachable: FakeNode,
    program: Path,
    says: Says,
    words: tuple[str, ...],
    message: str,
) -> None:
    with reachable.unchanged():
        status, out, err = says(*(one.format(program=program) for one in words))
    assert (status, out) == (2, "")
    assert fnmatchcase(err.splitlines()[-1], f"pinproof: {message}")


def certificate(
    monkeypatch: pytest.MonkeyPatch, ended: Upgradable | Exception, **how: Any
) -> tuple[Upgrade, OnNode | None]:
    """What is certified of an upgrade of this node, or of one that ended like this."""

    def upgraded(*_: object) -> OnNode:
        if isinstance(ended, Exception):
            raise ended
        plan, found = planned(ended), rehearsed(ended)
        return OnNode(plan, found, found.stages[1].kubelet, "1.36")

    monkeypatch.setattr(node_upgrade, "upgraded", upgraded)
    return certified(NODE, "/private/kubelet", lambda _: None, **how)


def test_an_upgrade_that_moves_a_container_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made, done = certificate(monkeypatch, Moving())
    assert done is not None
    first = done.found.broken[0]
    assert (first.leg, first.step) == (Leg.THERE, "start the kubelet")
    assert made.outcome == "broken"
    assert made.broken[0].leg == "the upgrade"
    assert any("pod1/c" in one for one in made.broken[0].differences)


@pytest.mark.parametrize(
    ("error", "restored"),
    [(SubjectLostError("the node fell silent"), True), (SubjectNotRestored("a differs"), False)],
)
def test_a_certificate_has_no_verdict_on_an_upgrade_that_did_not_end(
    monkeypatch: pytest.MonkeyPatch, error: Exception, restored: bool
) -> None:
    made, done = certificate(monkeypatch, error)
    assert done is None
    assert (made.outcome, made.reason, made.restored) == ("unknown", str(error), restored)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (run(result("pass"), ended=False), "the run was cut off before it"),
        (run(result("pass"), status=5), "the node was not restored before it"),
        (run(result("fail"), status=1), ""),
    ],
)
def test_a_run_that_was_interrupted_upgrades_nothing(
    monkeypatch: pytest.MonkeyPatch, made: Run, reason: str
) -> None:
    """Ctrl-C during the scenarios is no leave to replace the kubelet."""
    upgrade, done = certificate(monkeypatch, Upgradable(), against=_against(made))
    assert (upgrade.reason, done is None) == (reason, bool(reason))


def test_an_upgrade_that_is_asked_to_end_restores_the_node(
    reachable: FakeNode, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM is like Ctrl-C, which alone would leave the node to its dead-man timer."""

    def ends(nodes: NodeSubject, *_: object) -> None:
        brought(nodes, chosen(str(program), nodes))
        assert (reachable.root / STAGED[1:]).exists()
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(node_upgrade, "_upgraded", ends)
    monkeypatch.setattr(node_upgrade, "_chosen", lambda *_: None)
    place = "ssh://root@node7?max-risk=kubelet-restart"
    with reachable.unchanged(), pytest.raises(KeyboardInterrupt):
        upgraded(place, str(program), lambda _: None)
