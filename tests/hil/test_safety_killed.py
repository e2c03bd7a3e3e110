"""A runner that is killed, or interrupted: what it left is undone. `python -m benchmarks.kills 50`
does so at fifty moments."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.kills import killed_once
from conformance.ending import ENDING, ended_like_an_interrupt
from conformance.subject import SubjectLostError, SubjectSetupError
from hil.inspection import NodeFacts
from hil.safety import Allow, Guarded, KeepFile, NotRestored, Risk, forget_node
from hil.safety.guarded import second_interrupt_tells
from hil.session.leasing import LeasedNode, require_same
from hil.session.node_session import NodeSession
from hil.shell import NodeUnfit, NodeUnreachable
from hil.subject import NodeSubject, Options, _Reached
from hil.transport import NodeAddress
from tests.support.fakenode import FakeNode


@pytest.mark.parametrize("seed", range(3))
def test_a_runner_killed_at_any_moment(fake: FakeNode, seed: int) -> None:
    delay = random.Random(seed).uniform(0, 2)
    assert killed_once(fake, delay) == []


def test_a_draft_of_a_file_that_did_not_change_is_removed(fake: FakeNode) -> None:
    """A step that is killed between writing a file's new content and renaming it."""
    with fake.unchanged():
        fake.dies(120).change(KeepFile("/var/lib/kubelet/config.yaml"))
        fake.file("/var/lib/kubelet/.pinproof.new", "half of it")
        assert fake.restore(force=True)


def test_a_sweep_comes_before_a_new_run(fake: FakeNode, facts: NodeFacts) -> None:
    """What the dead one changed is not what the node was before."""
    with fake.unchanged():
        fake.dies(120).offline(5)
        (fake.root / "var/lib/pinproof/lease").unlink()
        with fake.run(Risk.PODS, facts=facts):
            assert (fake.root / "sys/devices/system/cpu/cpu5/online").read_text() == "1\n"


def test_a_node_may_be_taken_as_it_is(fake: FakeNode) -> None:
    """What nothing can restore must not lock the node for ever."""
    fake.dies(120, Risk.PODS)
    fake.file("/etc/kubernetes/manifests/own.yaml", "changed by somebody")
    for _ in range(2):
        with pytest.raises(NotRestored, match=r"manifests/own\.yaml: was sha256:"):
            fake.restore(force=True)
    forget_node(fake.shell(), root=str(fake.root))
    assert not (fake.root / "var/lib/pinproof").exists()
    assert not fake.restore()


def test_the_first_interrupt_restores_and_the_second_tells() -> None:
    lines: list[str] = []
    with second_interrupt_tells("MANUAL", lines.append):
        signal.raise_signal(signal.SIGINT)
        assert len(lines) == 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert lines[1] == "not restored; MANUAL"
    with (
        pytest.raises(KeyboardInterrupt),
        second_interrupt_tells("MANUAL", lines.append, already=True),
    ):
        signal.raise_signal(signal.SIGINT)
    assert lines[2] == "not restored; MANUAL"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.fixture
def not_ignored() -> Iterator[None]:
    """Whoever runs the tests may have been started to outlive its terminal."""
    before = {sign: signal.signal(sign, signal.SIG_DFL) for sign in ENDING}
    yield
    for sign, handler in before.items():
        signal.signal(sign, handler)


@pytest.mark.usefixtures("not_ignored")
def test_being_told_to_end_is_like_an_interrupt() -> None:
    """A service manager's or a CI system's signal, and a terminal that goes away."""
    lines: list[str] = []
    with ended_like_an_interrupt():
        for sign in ENDING:
            with pytest.raises(KeyboardInterrupt, match=sign.name):
                signal.raise_signal(sign)
        with second_interrupt_tells("MANUAL", lines.append):
            signal.raise_signal(signal.SIGTERM)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGHUP)
    assert lines == [
        "restoring first; press Ctrl-C again to leave the node as it is",
        "not restored; MANUAL",
    ]
    assert [signal.getsignal(sign) for sign in ENDING] == [signal.SIG_DFL] * len(ENDING)


def test_an_ignored_signal_stays_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_like_an_interrupt(), second_interrupt_tells("MANUAL", pytest.fail):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_interrupt_inside_restores(fake: FakeNode) -> None:
    with (  # noqa: PT012  - what is raised inside is raised outside
        pytest.raises(KeyboardInterrupt),
        fake.guarded() as node,
    ):
        node.offline(5)
        signal.raise_signal(signal.SIGINT)


def test_only_the_main_thread_can_be_interrupted() -> None:
    entered: list[str] = []

    def elsewhere() -> None:
        with second_interrupt_tells("", entered.append):
            entered.append("")

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert entered == [""]


@dataclass
class _Node:
    """What giving back needs of a session and of its guard, of a node that is off until somebody
    switches it on."""

    in_lab: bool = True
    boots: bool = True
    on: bool = False
    slowest: float = 1.0
    restored: bool = False
    patience: float = -1.0
    name: str = "node7"
    pod_source: Any = field(default_factory=lambda: SimpleNamespace(close=lambda: None))

    @property
    def guard(self) -> _Node:
        return self

    def switch_on(self) -> None:
        if not self.boots:
            raise SubjectLostError("it does not boot")
        self.on = True

    def leave(self, *, patience: float) -> None:
        self.patience = patience
        if not self.on:
            cause = NodeUnreachable("no connection")
            raise NotRestored("node7", ["it could not be restored"]) from cause
        self.restored = True

    def give_back(self) -> None:
        LeasedNode(cast("NodeSession", self), cast("Guarded", self)).give_back()


def test_a_lab_node_that_is_off_is_switched_on_to_be_restored() -> None:
    """A run that is ended while it boots its node."""
    node = _Node()
    node.give_back()
    assert node.restored


def test_an_interrupt_while_pods_are_taken_away_leaves_no_node_as_it_is() -> None:
    def close() -> None:
        raise KeyboardInterrupt

    node = _Node(on=True, pod_source=SimpleNamespace(close=close))
    with pytest.raises(KeyboardInterrupt):
        node.give_back()
    assert node.restored


def test_a_node_that_a_run_before_left_changed_is_asked_again(described: NodeFacts) -> None:
    """Undoing gives its kubelet other settings than it was asked for."""
    require_same(described, described)
    assert described.kubelet is not None
    settings = {**described.kubelet.settings, "reservedSystemCPUs": "1"}
    kubelet = replace(described.kubelet, settings=settings)
    with pytest.raises(NodeUnfit, match="a run before had left its kubelet or its CPUs changed"):
        require_same(replace(described, kubelet=kubelet), described)


@pytest.mark.parametrize(("slowest", "patience"), [(1.0, 0.0), (60.0, 300.0), (500.0, 900.0)])
def test_a_slow_node_has_longer_to_take_its_pods_away(slowest: float, patience: float) -> None:
    node = _Node(on=True, slowest=slowest)
    node.give_back()
    assert node.patience == patience


@pytest.mark.parametrize("node", [_Node(in_lab=False), _Node(boots=False)])
def test_any_other_node_that_is_off_is_not_restored(node: _Node) -> None:
    with pytest.raises(NotRestored, match="it could not be restored"):
        node.give_back()
    assert not node.restored


def test_a_node_that_is_held_is_refused_once_and_before_any_scenario(fake: FakeNode) -> None:
    """Its lease is looked at where a run has left anything on it."""

    def subject() -> NodeSubject:
        address = NodeAddress("fake", "ssh://fake", allow=frozenset(Allow))
        return NodeSubject("fake", [_Reached(address, fake.shell(), fake.facts())], Options())

    subject().smoke()
    with (
        fake.guarded(Risk.PODS),
        pytest.raises(SubjectSetupError, match=r"fake: this node is held by test-"),
    ):
        subject().smoke()
    subject().smoke()
