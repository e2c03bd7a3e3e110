"""The node that scenarios drive: what it compares, and what it does not hold against a subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from conformance.lockstep import Divergence, LockstepNode
from conformance.oracle import ModelOracle
from conformance.pods import guaranteed
from conformance.promises import EXCLUSIVE_TO_ONE, RESERVED_STAY
from conformance.results import Failure
from conformance.scenario import Scenario, Source
from conformance.subject import Capability, SubjectInfo, SubjectLostError
from conformance.subjects.reference import ReferenceSubject
from reference import NEWEST, CPUSet, DiscoveryError, Node
from reference.steps import Apply, KubeletConfig, Start, Step
from reference.view import View
from tests.conformance.judging import judged, scenario_of
from topologies import Machine, Tree, machine

MACHINE = machine("1s-1n-4c-smt2")


class Doctored:
    """The model, whose view is changed by a function before it is shown."""

    info = SubjectInfo("doctored", NEWEST)
    capabilities = frozenset(Capability)

    def __init__(self, change: Callable[[Node, View], View] = lambda _, view: view) -> None:
        self._change = change
        self.closed = 0
        self.after_start: Callable[[], None] = lambda: None

    def node(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> Doctored:
        self._node = Node(lambda name: machines(name).tree, machine.name, config)
        return self

    def do(self, step: Step) -> None:
        self._node.do(step)
        if isinstance(step, Start):
            self.after_start()

    def drive(self, seen: View) -> None:
        """Make the node go on from another outcome of chance."""
        assert self._node.follow(seen)

    def view(self) -> View:
        return self._change(self._node, self._node.view())

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        satisfied(self.view())
        return self.view()

    def evidence(self) -> str:
        return "a log line"

    def close(self) -> None:
        self.closed += 1


_oracle = partial(ModelOracle, release=NEWEST)


def _lockstep(subject: Doctored | ReferenceSubject) -> LockstepNode:
    return LockstepNode(subject, MACHINE, oracle=_oracle, release=NEWEST)


def _booted(subject: Doctored) -> LockstepNode:
    node = _lockstep(subject)
    node.boot()
    return node


def _scenario(body: Callable[[LockstepNode], None], **changes: object) -> Scenario:
    facts: dict[str, object] = {
        "id": "test/one",
        "title": "A fact",
        "source": Source("a document", "https://example.org/"),
        "body": body,
    }
    return Scenario(**{**facts, **changes})  # type: ignore[arg-type]


def _failure(do: Callable[[], object]) -> Failure:
    """With what this step ends a scenario."""
    with pytest.raises(Divergence) as caught:
        do()
    return caught.value.failure


def _stolen(view: View, node: LockstepNode) -> View:
    """As if the reserved CPUs had left the pool for good."""
    return replace(view, shared_pool=view.shared_pool - node.reserved)


def _restarted(order: tuple[str, ...]) -> View:
    """A fresh node that has admitted two pods of one CPU in this order."""
    config = LockstepNode(ReferenceSubject(), MACHINE, oracle=_oracle, release=NEWEST).config
    node = Node(lambda _: MACHINE.tree, MACHINE.name, config)
    node.do(Start())
    for name in order:
        node.do(Apply(guaranteed(name, 1)))
    return node.view()


def test_a_view_that_differs_from_the_oracles_is_a_divergence() -> None:
    """With the pictures of both sides."""
    node = _booted(Doctored(lambda _, view: replace(view, state_file=None) if view.pods else view))
    failure = _failure(lambda: node.apply(guaranteed("a", 2)))
    assert [one.what for one in failure.differences] == ["state file"]
    assert [(one.owner, one.cpus) for one in failure.seen_holdings] == [
        ("a/c", "1,5"),
        ("reserved", "0,4"),
        ("shared pool", "2-3,6-7"),
    ]
    assert failure.seen_holdings == failure.expected_holdings


def test_who_held_which_cpus_is_told_after_every_step_that_changed_it() -> None:
    node = _booted(Doctored())
    node.apply(guaranteed("a", 2))
    node.stop()
    [started, applied] = _failure(lambda: node.promise(False, "never kept")).moments
    assert started.step == "start the kubelet"
    assert [(one.owner, one.cpus) for one in started.holdings] == [
        ("reserved", "0,4"),
        ("shared pool", "1-3,5-7"),
    ]
    assert applied.step.startswith("apply Guaranteed pod a")
    first = applied.holdings[0]
    assert (first.owner, first.cpus) == ("a/c", "1,5")


def test_a_kubelet_that_runs_and_should_refuse_is_the_cause_named_first() -> None:
    """Before the invariants that its state then breaks, and without pictures: they would show what
    followed."""

    def runs(_: Node, view: View) -> View:
        return replace(view, running=True, error="", exit_status=None, shared_pool=CPUSet())

    subject = Doctored()
    node = _booted(subject)
    node.stop()
    node.write_state('{"policyName":"static","defaultCpuSet":"0-9","checksum":1}')
    subject._change = runs
    failure = _failure(node.start)
    assert failure.rule == "The kubelet refuses to start"
    first = failure.differences[0]
    assert (first.what, first.seen) == ("kubelet", "runs")
    assert "reserved CPUs in the pool" in [one.what for one in failure.differences]
    assert (failure.seen_holdings, failure.expected_holdings, failure.moments) == ([], [], [])


def test_a_kubelet_that_gives_up_and_should_run_is_the_cause_named_first() -> None:
    def gives_up(_: Node, view: View) -> View:
        return replace(view, running=False, error="no reason", exit_status=1)

    node = _lockstep(Doctored(gives_up))
    failure = _failure(node.boot)
    assert failure.differences[0].seen == "gave up with exit status 1: no reason"
    assert failure.seen_holdings == []


def test_a_broken_invariant_is_named_before_what_the_oracle_says() -> None:
    """It is the plainer story."""
    node = _lockstep(Doctored(lambda _, view: _stolen(view, node)))
    rule = _failure(node.boot).rule
    assert "Reserved CPUs stay in the shared pool" in rule
    assert "Every CPU is either exclusive or in the shared pool" in rule


def test_an_order_of_admission_that_chance_decides_is_no_divergence() -> None:
    """After the state file is gone, pods are admitted in any order. The oracle goes on from what
    was seen: the later deletion returns the CPUs that the pod really had."""
    subject = Doctored()
    node = _booted(subject)
    for name in ("a", "b"):
        node.apply(guaranteed(name, 1))
    node.stop()
    node.remove_state()
    other = _restarted(("b", "a"))
    assert other != _restarted(("a", "b"))
    subject.after_start = lambda: subject.drive(other)
    node.start()
    assert node.view == other
    assert node.delete("a").assignments == {"b": other.assignments["b"]}


def test_the_node_is_closed_whatever_happens() -> None:
    """Also when the scenario crashes; and that is no verdict on the subject."""
    subject = Doctored()

    def crash(node: LockstepNode) -> None:
        node.boot()
        raise RuntimeError("a bug in the scenario")

    result = judged(_scenario(crash), MACHINE, subject)
    assert result.verdict == "unknown"
    assert "RuntimeError: a bug in the scenario" in result.reason
    assert subject.closed == 1


def _boots(node: LockstepNode) -> None:
    node.boot()


def test_a_step_that_cannot_be_carried_out_is_unknown() -> None:

    class Lost(Doctored):
        def do(self, step: Step) -> None:
            raise SubjectLostError("the kubelet hangs", evidence="its last line")

    result = judged(_scenario(_boots), MACHINE, Lost())
    assert (result.verdict, result.reason) == ("unknown", "the kubelet hangs")
    assert "its last line" in result.explanation


def _seen_hanging(_: Node, view: View) -> View:
    return replace(view, hangs="no effect in 15 s") if view.pods else view


def _applies(node: LockstepNode) -> None:
    node.boot()
    node.apply(guaranteed("a", 2))


def test_a_subject_that_hangs_fails_and_its_log_is_shown() -> None:
    """It is no case of "could not tell": the model answers."""
    result = judged(_scenario(_applies), MACHINE, Doctored(_seen_hanging))
    assert result.verdict == "fail"
    assert result.reason.startswith("hang: the kubelet answers the step “apply")
    assert result.failure is not None
    (found,) = result.failure.differences
    assert (found.expected, found.seen) == ("answers", "hangs: no effect in 15 s")
    assert "a log line" in result.explanation


def test_a_hang_that_the_model_does_not_know_is_not_excused() -> None:
    """Only a known defect of the release is, though the scenario allows for it."""

    def allows(node: LockstepNode) -> None:
        node.expect_hang()
        _applies(node)

    result = judged(_scenario(allows), MACHINE, Doctored(_seen_hanging))
    assert result.verdict == "fail"
    assert result.reason.startswith("hang: ")


ENDLESS = scenario_of("options/numa-distribution-may-hang")
WHERE_IT_HANGS = "2s-4n-40c-smt2-interleaved"


def test_a_hang_of_the_release_breaks_a_promise_of_an_answer() -> None:
    """The explanation says that the release does so too."""

    def promises(node: LockstepNode) -> None:
        node.expect_hang = lambda: None  # type: ignore[method-assign]
        ENDLESS.body(node)

    result = judged(replace(ENDLESS, body=promises), WHERE_IT_HANGS)
    assert result.verdict == "fail"
    assert "the model of 1.36 hangs here as well: 2 CPUs are to be dealt out" in result.explanation


FIXED = f"{NEWEST}+distribution-ends"


@pytest.mark.parametrize("release", [NEWEST, FIXED])
def test_a_kubelet_with_the_fix_is_not_accused_of_answering(release: str) -> None:
    """Whether the user says that it carries the fix or not. Where not, the model says nothing more
    and the promise judges."""
    subject = ReferenceSubject(release=FIXED)
    result = judged(ENDLESS, WHERE_IT_HANGS, subject, release=release)
    assert result.verdict == "pass", result.explanation
    assert result.witness.endswith("after that the promise alone") is (release == NEWEST)


def test_a_kubelet_that_is_said_to_have_the_fix_may_not_hang() -> None:
    """Although the scenario allows for a hang."""
    result = judged(ENDLESS, WHERE_IT_HANGS, ReferenceSubject(), release=FIXED)
    assert result.verdict == "fail"
    assert result.reason.startswith("hang: ")


def test_a_scenario_without_a_step_is_never_a_pass() -> None:
    assert judged(_scenario(lambda node: None), MACHINE).verdict == "unknown"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"capabilities": frozenset({Capability.REBOOT})},
            "the subject cannot boot the machine again with other CPUs",
        ),
        ({"since": "1.37"}, "promised from 1.37 on, this is 1.36"),
        ({"since": "1.8", "until": "1.35"}, "promised up to 1.35, this is 1.36"),
    ],
)
def test_a_scenario_that_does_not_apply_skips_with_its_reason(
    changes: dict[str, object], reason: str
) -> None:
    """A capability that the subject lacks; a release before the promise, or after its end."""
    subject = Doctored()
    subject.capabilities = frozenset({Capability.PODS, Capability.STATE_FILE})
    result = judged(_scenario(lambda node: None, **changes), MACHINE, subject)
    assert (result.verdict, result.reason) == ("skip", reason)


def test_the_replay_command_judges_by_the_same_release() -> None:
    """Where that is not the subject's own."""
    subject = Doctored()
    subject.info = SubjectInfo("doctored", "1.35")
    result = judged(_scenario(_boots), MACHINE, subject)
    assert result.verdict == "pass"
    assert f"--release {NEWEST} " in result.replay


def test_a_known_defect_is_not_held_against_the_subject() -> None:
    """Only the rules named; the oracle still objects."""
    subject = Doctored(lambda _, view: _stolen(view, node))
    node = _lockstep(subject)
    node.expect_broken(RESERVED_STAY)
    assert _failure(node.boot).rule == "Every CPU is either exclusive or in the shared pool"
    node = _lockstep(subject)
    node.expect_broken(RESERVED_STAY, EXCLUSIVE_TO_ONE)
    node.expect_lost(node.reserved)
    assert _failure(node.boot).rule.startswith("After the step")


def test_an_update_more_than_is_owed_is_not_accused() -> None:
    """Here a kubelet that repairs a changed cpuset at once."""

    def mended(_: Node, view: View) -> View:
        return replace(view, cpusets={**view.cpusets, **view.assignments})

    result = judged("reconcile/restart-repairs-a-changed-cpuset", MACHINE, Doctored(mended))
    assert result.verdict == "pass", result.explanation


def test_an_update_to_the_wrong_cpus_is_accused() -> None:
    def moved(_: Node, view: View) -> View:
        return replace(view, cpusets={"a": {"c": node.cpus - node.reserved}})

    subject = Doctored()
    node = _booted(subject)
    node.apply(guaranteed("a", 1))
    subject._change = moved
    with pytest.raises(Divergence, match="After the step"):
        node.tamper("a", "c", node.cpus)


def test_a_shared_container_on_exclusive_cpus_is_accused_where_nothing_was_said() -> None:
    """Under a strict reservation that leaves the pool empty (kubernetes/kubernetes#141196)."""
    scenario = scenario_of("options/strict-empties-the-pool")

    def says_nothing(node: LockstepNode) -> None:
        node.expect_broken = lambda *rules: None  # type: ignore[method-assign]
        scenario.body(node)

    result = judged(replace(scenario, body=says_nothing), MACHINE)
    assert (result.verdict, result.reason) == ("fail", EXCLUSIVE_TO_ONE)
    assert result.failure is not None
    (found,) = result.failure.differences
    assert found.what == "cpuset early/c and exclusive CPUs a/c"


def test_lost_cpus_must_be_lost() -> None:
    """Whoever says that they are lost is wrong where somebody has them."""
    node = _lockstep(ReferenceSubject())
    node.expect_lost(node.reserved)
    with pytest.raises(Divergence, match="Every CPU is either exclusive or in the shared pool"):
        node.boot()


def test_a_subject_reads_the_machine_by_its_own_architecture() -> None:
    """An amd64 kubelet reads the tree of an s390x machine by its own rules, and the oracle goes by
    the kubelet (docs/facts 2.8). One built for s390x misses books and drawers here."""
    tree = Tree({**MACHINE.tree, "proc/cpuinfo": "vendor_id       : IBM/S390\n"})
    other = replace(MACHINE, tree=tree)
    subject = ReferenceSubject()
    with pytest.raises(DiscoveryError):
        LockstepNode(subject, other, oracle=_oracle, release=NEWEST)
    subject.info = replace(subject.info, facts={"architecture": "x86_64"})
    node = LockstepNode(subject, other, oracle=_oracle, release=NEWEST)
    assert node.topology.num_cores == 4
    config = node.default_config()
    machines = {other.name: other}.__getitem__
    for built_for, runs in (("x86_64", True), (None, False)):
        oracle = ModelOracle(
            other, config, machines=machines, release=NEWEST, architecture=built_for
        )
        view = oracle.after(Start())
        assert view is not None
        assert view.running is runs
