"""The static policy's options: every text and every CPU here was seen on a real 1.36.4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from reference import (
    ConfigurationError,
    CPUSet,
    KubeletHangs,
    Node,
    NotModelled,
    StaticOptions,
    StaticPolicy,
    discover,
    make_policy,
)
from reference.machine.topology import CPUTopology
from reference.steps import (
    Apply,
    AwaitReconcile,
    Delete,
    KubeletConfig,
    Start,
    Step,
    Stop,
    WriteState,
)
from reference.view import Phase, PodView
from tests.reference import nodes
from tests.reference.nodes import EIGHT, do, state_file, tree
from tests.support.pods import pod

FULL, NUMA = "full-pcpus-only", "distribute-cpus-across-numa"
CORES, STRICT = "distribute-cpus-across-cores", "strict-cpu-reservation"
UNCORE = "prefer-align-cpus-by-uncorecache"
ALPHA = {"CPUManagerPolicyAlphaOptions": True}
TRUE, FALSE = ["1", "t", "T", "TRUE", "true", "True"], ["0", "f", "F", "FALSE", "false", "False"]


def config(
    *options: str,
    reserved: str = "",
    amount: str | None = None,
    gates: Mapping[str, bool] = ALPHA,
    policy: str = "static",
) -> KubeletConfig:
    """Options are ``name`` (true) or ``name=value``."""
    pairs = (one.partition("=") for one in options)
    return KubeletConfig(
        policy=policy,
        reserved_system_cpus=CPUSet.parse(reserved) if reserved else None,
        system_reserved=amount,
        policy_options={name: value if equals else "true" for name, equals, value in pairs},
        feature_gates=gates,
    )


def node(machine: str, settings: KubeletConfig, *steps: Step) -> Node:
    return nodes.node(*steps, config=settings, machine=machine)


def topology() -> CPUTopology:
    return discover(tree(EIGHT)).cpu_topology()


def held(one: Node) -> dict[str, str]:
    """The first container's CPUs, by pod."""
    return {name: str(sets["c1"]) for name, sets in one.view().assignments.items()}


# -- what is refused -----------------------------------------------------------------------------


def not_enabled(level: str, option: str) -> str:
    return f'CPU Manager Policy {level}-level Options not enabled, but option "{option}" provided'


def no_boolean(value: str) -> str:
    return f'bad value for option "{FULL}": strconv.ParseBool: parsing "{value}": invalid syntax'


def not_together(one: str, other: str) -> str:
    return f"static policy options {one} and {other} can not be used at the same time"


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (config("nope=false"), 'unknown CPU Manager Policy option: "nope"'),
        (config('é"x\\'), r'unknown CPU Manager Policy option: "é\"x\\"'),
        (config(f"{CORES}=maybe", gates={}), not_enabled("Alpha", CORES)),
        (config(f"{FULL}="), no_boolean("")),
        (config(f"{FULL}=tRUE"), no_boolean("tRUE")),
        (config(UNCORE, NUMA, CORES, FULL), not_together(FULL, CORES)),
    ],
)
def test_options_that_are_refused(settings: KubeletConfig, error: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        StaticOptions.parse(settings.policy_options, settings.feature_gates)
    assert str(caught.value) == error
    down = node(EIGHT, replace(settings, system_reserved="1"), Start()).view()
    assert down.error == f"failed to run Kubelet: new static policy error: {error}"
    assert not down.running
    assert down.state_file is None


def test_any_of_several_faults_may_be_told() -> None:
    """Go walks the options in random order, and the first fault ends the walk."""
    with pytest.raises(ConfigurationError) as caught:
        StaticOptions.parse({"nope": "1", FULL: "yes", STRICT: "1"}, {})
    assert caught.value.possible == (no_boolean("yes"), 'unknown CPU Manager Policy option: "nope"')
    one = node(EIGHT, config("nope", f"{FULL}=yes", amount="1"), Start())
    assert one.possible_errors == tuple(
        f"failed to run Kubelet: new static policy error: {text}" for text in caught.value.possible
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # The six words for true and for false.
        *(({FULL: word}, StaticOptions(full_pcpus_only=True)) for word in TRUE),
        *(({FULL: word}, StaticOptions()) for word in FALSE),
        # An option that is switched off excludes none.
        ({FULL: "false", CORES: "true"}, StaticOptions(distribute_across_cores=True)),
    ],
)
def test_options_that_are_taken(given: Mapping[str, str], expected: StaticOptions) -> None:
    assert StaticOptions.parse(given, ALPHA) == expected


def test_options_are_judged_before_the_reservation_and_after_its_amount() -> None:
    with pytest.raises(ConfigurationError, match="unknown CPU Manager Policy option"):
        make_policy(topology(), config("nope", amount="9"))
    with pytest.raises(ConfigurationError, match="unable to determine reserved CPU resources"):
        make_policy(topology(), config("nope"))


# -- full-pcpus-only -----------------------------------------------------------------------------


def test_a_restart_may_refuse_a_holder_for_a_newcomers_sake() -> None:
    """Which of the two is admitted first is chance, so both outcomes are followed."""
    one = node(EIGHT, config(FULL, reserved="0"), Start(), Apply(pod("a", 2)), Apply(pod("b", 2)))
    do(one, Stop(), Apply(pod("c", 2)), Start())
    assert held(one) == {"a": "1,5", "b": "2,6", "c": "3,7"}
    assert one.outcomes > 1


# -- the allocators ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "settings", "requests", "expected"),
    [
        # Whole cores mean nothing without SMT.
        (nodes.FOUR, config(FULL, amount="1"), (1, 2), {"a": "1", "b": "2-3"}),
        ("2s-2n-32c-smt2-l3x4", config(CORES, amount="3"), (10, 31, 5),
         {"a": "3-12", "b": "13-27,32-47", "c": "28-31,48"}),
        ("2s-2n-32c-smt2-l3x4", config(UNCORE, FULL, STRICT, reserved="0,32"), (6, 8, 14, 2),
         {"a": "1-3,33-35", "b": "4-7,36-39", "c": "8-14,40-46", "d": "15,47"}),
    ],
)  # fmt: skip
def test_options_choose_the_cpus(
    machine: str, settings: KubeletConfig, requests: tuple[int, ...], expected: dict[str, str]
) -> None:
    """To read; every option is recorded on many machines (tests/conformance/test_recordings.py)."""
    pods = (Apply(pod(name, cpus)) for name, cpus in zip("abcd", requests, strict=False))
    assert held(node(machine, settings, Start(), *pods)) == expected


#: A holder whose CPUs lie so that a kubelet of these NUMA nodes hangs over another pod.
HANGING, HOLDER = "2s-4n-16c-smt2", pod("p", 6)
SCATTERED = state_file("0-7,9-11,14-23,25-27,30-31", {HOLDER.uid: {"c1": "8,12-13,24,28-29"}})


def test_a_kubelet_that_hangs_takes_nothing_up_until_it_is_stopped() -> None:
    """kubernetes/kubernetes#140730. As the real one: it kept its lock and admitted nobody any more,
    and SIGTERM ended it."""
    settings = config(NUMA, FULL, reserved="0,4")
    steps = (WriteState(SCATTERED), Apply(HOLDER), Start(), Apply(pod("h", 22)))
    one = node(HANGING, settings, *steps)
    hung = one.view()
    assert hung.running
    assert "140730" in hung.hangs
    assert (hung.pods["h"].phase, hung.pods["p"].phase) == (Phase.PENDING, Phase.RUNNING)
    for step in (Apply(pod("i", 2)), Delete("p"), AwaitReconcile()):
        view = do(one, step)
        assert (view.hangs, view.state_file) == (hung.hangs, hung.state_file)
        assert view.cpusets == hung.cpusets
    assert view.pods["i"].phase is Phase.PENDING
    after = do(one, Stop(), Delete("h"), Start())
    assert after.hangs == ""
    assert {name: each.phase for name, each in after.pods.items()} == {"i": Phase.RUNNING}


def test_a_kubelet_that_starts_hangs_over_its_only_pod_again() -> None:
    """Whom of several it admitted before is decided by chance."""
    settings = config(NUMA, FULL, reserved="7,34,44,64")
    steps = (Start(), Apply(pod("h", 70)), Stop(kill=True))
    one = node("2s-4n-40c-smt2-interleaved", settings, *steps)
    assert one.view().hangs == ""
    view = do(one, Start())
    assert "140730" in view.hangs
    assert view.pods == {"h": PodView(Phase.PENDING)}
    do(one, Stop(kill=True), Apply(pod("i", 2)))
    with pytest.raises(NotModelled, match="Start: the kubelet hangs"):
        one.do(Start())


def test_a_pod_of_which_the_second_container_hangs_keeps_what_its_first_was_given() -> None:
    """The state file is written container by container."""

    class HangsAtTwo(StaticPolicy):
        def take(self, available: CPUSet, count: int, hint_nodes: int = 0) -> CPUSet:
            if count == 2:
                raise KubeletHangs("for ever")
            return super().take(available, count, hint_nodes)

    one = Node(
        tree,
        HANGING,
        config(reserved="0,4"),
        policy_factory=lambda topology, settings, *, release: HangsAtTwo(
            topology, settings.reserved_system_cpus or CPUSet(), release=release
        ),
    )
    hung = do(one, WriteState(SCATTERED), Apply(HOLDER), Start(), Apply(pod("h", 4, 2)))
    assert hung.hangs == "for ever"
    assert set(hung.assignments["h"]) == {"c1"}
    assert len(hung.assignments["h"]["c1"]) == 4
    assert "h" not in hung.cpusets


# -- strict-cpu-reservation ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("default", "held", "error"),
    [
        ("1-3,5-6", "",
         'current set of available CPUs "1-3,5-7" doesn\'t match with CPUs in state "1-3,5-6"'),
        ("1-7", "", 'some of strictly reserved cpus: "4" are present in defaultCpuSet: "1-7"'),
        ("2-3,5-7", "1-2",
         'pod: u, container: c cpuset: "1-2" overlaps with default cpuset "2-3,5-7"'),
        ("2-3,5-7", "1", ""),
        ("", "1", "default cpuset cannot be empty"),
    ],
)  # fmt: skip
def test_strict_judges_the_state_without_the_reserved_cpus(
    default: str, held: str, error: str
) -> None:
    state = WriteState(state_file(default, {"u": {"c": held}} if held else {}))
    view = node(EIGHT, config(STRICT, amount="2"), state, Start()).view()
    assert (view.running, view.error) == (not error, error)


# -- maturity (docs/facts 4.1 and 4.2) -----------------------------------------------------------

_A, _B, _S = "Alpha", "Beta", ""
#: From which minor on each option is there, and how mature.
MATURITY = {
    "full-pcpus-only": {23: _B, 33: _S},
    "distribute-cpus-across-numa": {23: _A, 33: _B},
    "align-by-socket": {25: _A},
    "distribute-cpus-across-cores": {31: _A},
    "strict-cpu-reservation": {32: _A, 33: _B, 35: _S},
    "prefer-align-cpus-by-uncorecache": {32: _A, 34: _B, 36: _S},
}


@pytest.mark.parametrize("minor", range(23, 38))
@pytest.mark.parametrize("option", MATURITY)
def test_the_maturity_of_every_option(option: str, minor: int) -> None:
    """What a release does not know it calls unknown; alpha and beta options need their gate, even
    to be switched off; stable ones need nothing."""
    release = f"1.{minor}"
    reached = [level for since, level in MATURITY[option].items() if since <= minor]
    for value in ("true", "false"):
        for gate in ("Alpha", "Beta"):
            gates = {f"CPUManagerPolicy{gate}Options": False}
            if gate == "Beta":
                gates["CPUManagerPolicyAlphaOptions"] = True
            refused = _refusal_of(option, value, gates, release)
            if not reached:
                assert refused == f'unknown CPU Manager Policy option: "{option}"'
            else:
                assert refused == (not_enabled(gate, option) if reached[-1] == gate else "")


def _refusal_of(option: str, value: str, gates: dict[str, bool], release: str) -> str:
    try:
        StaticOptions.parse({option: value}, gates, release=release)
    except ConfigurationError as error:
        return str(error)
    return ""
