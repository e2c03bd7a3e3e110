"""Histories that are drawn for real nodes, on nodes whose kubelet is the model."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conformance.subject import NOT_OF_REAL_NODES, Capability, SubjectUsageError
from hil.inspection import gather
from hil.safety import Risk
from hil.session.node_session import Patience
from hil.subject import NodeSubject, Options, _Reached
from hil.transport import NodeAddress
from hunting.exploring.campaign import MOST_CAUSES, Exploration, Outcome, Scope
from hunting.exploring.factors import offered
from hunting.exploring.settings import keep_machine
from pinproof.cli import app
from pinproof.explore import _machines
from tests.hil.test_subject_scenarios import RELEASE, FakeSubject, ModelMember
from tests.support.fakenode import FakeNode


def explored(
    session: ModelMember, seed: int, count: int, most: int = MOST_CAUSES, *, effect: float = 0.02
) -> list[Outcome]:
    """What comes of so many histories on the node, or of those up to so many causes. ``effect``: so
    many seconds are waited for what does not show."""
    session.patience = Patience(start=1.0, effect=effect, rest=0.02, watch=0.01)
    keep_machine(session.machine)
    scope = Scope((session.machine.name,), RELEASE, seed=seed, count=count, most=most)
    exploration = Exploration(FakeSubject(session), scope, at_a_time=1)
    try:
        return list(exploration.explore(until=time.monotonic() + 600))
    finally:
        exploration.close()


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_node_like_the_model_differs_nowhere(seed: int) -> None:
    """Each step of a history is one that a real node takes, or the history ends before it."""
    found = explored(ModelMember(), seed, 60, effect=1.0)  # a busy host is no difference
    wrong = [one.result.explanation for one in found if one.result.verdict == "fail" or one.once]
    assert not wrong
    kept = [one for one in found if one.result.verdict == "pass"]
    assert len(kept) > 50
    assert sum(len(one.result.steps) > 3 for one in kept) > 20


def test_a_node_that_loses_its_assignments_is_found() -> None:
    """At the second start of a kubelet; nothing else is needed to show it."""
    found = explored(ModelMember(lose_at_start=True), 1, 40, most=1)
    assert [one for one in found if one.first]


def test_no_history_boots_a_real_node_as_another_machine() -> None:
    """And none has what no real node can do."""
    values = offered(RELEASE, frozenset(Capability) - NOT_OF_REAL_NODES)
    assert "reboot" in values["event"]
    assert "smaller machine" not in values["event"]
    assert values["devices"] == ("none",)


def test_what_an_exploration_of_real_nodes_needs_is_said_first(tmp_path: Path) -> None:
    """The risk that permits it, and the names of the nodes."""
    reached = _fake(tmp_path)
    with pytest.raises(SubjectUsageError, match=r"needs --max-risk kubelet-restart$"):
        _machines(NodeSubject("fake", [reached], Options()), ())
    able = NodeSubject("fake", [reached], Options(risk=Risk.KUBELET_RESTART))
    assert _machines(able, ()) == [reached.facts.name]
    with pytest.raises(SubjectUsageError, match="node8: the nodes are fake"):
        _machines(able, ["node8"])


def test_a_run_that_cannot_explore_afterwards_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = _fake(tmp_path)
    monkeypatch.setattr(
        "pinproof.subjects.opened",
        lambda spec: nullcontext(NodeSubject("fake", [reached], Options())),
    )
    monkeypatch.setattr("pytest.main", lambda *arguments, **plugins: pytest.fail("it ran"))
    words = ["run", "--subject", "node:fake", "--explore", "1", "--report", str(tmp_path / "out")]
    said = CliRunner().invoke(app, words)
    assert isinstance(said.exception, SubjectUsageError)
    assert "needs --max-risk kubelet-restart" in str(said.exception)


def _fake(folder: Path) -> _Reached:
    fake = FakeNode(folder / "root")
    shell = fake.shell()
    return _Reached(NodeAddress("fake", "ssh://fake"), shell, gather(shell, root=str(fake.root)))
