"""Views compared, and the invariants: each is seen to fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.checks import cpu_difference, differences
from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from conformance.promises import EXCLUSIVE_TO_ONE, Situation, violations
from conformance.results import Difference
from conformance.subject import Capability
from reference import CPUSet, CPUTopology
from reference.steps import Kind, KubeletConfig, PodResources
from reference.view import CFS, Phase, PodView, View

ALL = frozenset(Capability)


def cpus(text: str) -> CPUSet:
    """A CPU list."""
    return CPUSet.parse(text)


GOOD = View(
    running=True,
    pods={
        "a": PodView(Phase.RUNNING, qos="Guaranteed"),
        "s": PodView(Phase.RUNNING, qos="BestEffort"),
    },
    assignments={"a": {"c": cpus("1-2")}},
    shared_pool=cpus("0,3"),
    state_file="{}",
    cpusets={"a": {"c": cpus("1-2")}, "s": {"c": cpus("0,3")}},
)
SITUATION = Situation(
    config=KubeletConfig(reserved_system_cpus=cpus("0")),
    pods={"a": guaranteed("a", 2), "s": best_effort("s")},
    cpus=cpus("0-3"),
    reserved=cpus("0"),
    can=ALL,
)


def test_equal_views_have_no_difference() -> None:
    """Nor does a good view break an invariant."""
    assert differences(GOOD, GOOD, ALL) == []
    assert violations(GOOD, SITUATION) == []


@pytest.mark.parametrize("reason", ["OutOfnic", "OutOfgpu", "OutOfcpu"])
def test_a_refusal_that_chance_may_give_is_no_difference(reason: str) -> None:
    """Its QoS class is compared all the same."""
    refused = PodView(Phase.REJECTED, "OutOfnic", "nic", or_else=(("OutOfgpu", "gpu"),))
    expected = replace(GOOD, pods={"a": refused})
    seen = PodView(Phase.REJECTED, reason, reason[5:])
    found = differences(expected, replace(GOOD, pods={"a": seen}), ALL)
    assert [one.what for one in found] == (["pod a"] if reason == "OutOfcpu" else [])
    (other,) = differences(expected, replace(GOOD, pods={"a": replace(seen, qos="B")}), ALL)
    assert other.what == "pod a"


def test_a_cpu_difference_tells_both_sides_and_what_is_between_them() -> None:
    assert cpu_difference("x", cpus("1-2"), cpus("2-3")) == Difference(
        what="x", expected="1-2", seen="2-3", missing="1", unexpected="3"
    )
    assert cpu_difference("x", None, cpus("1")).expected == "(no cpuset)"
    assert cpu_difference("x", cpus("1"), CPUSet()).seen == "(none)"


@pytest.mark.parametrize(
    ("changes", "what", "expected", "seen"),
    [
        ({"running": False, "error": "no"}, "kubelet", "runs", "gave up: no"),
        (
            {"pods": {**GOOD.pods, "a": PodView(Phase.REJECTED, "R", "M", "Guaranteed")}},
            "pod a", "running, Guaranteed", "rejected, Guaranteed: R: M",
        ),
        ({"pods": {"s": GOOD.pods["s"]}}, "pod a", "running, Guaranteed", "(not there)"),
        ({"assignments": {"a": {"c": cpus("2-3")}}}, "exclusive CPUs a/c", "1-2", "2-3"),
        ({"assignments": {}}, "exclusive CPUs a/c", "1-2", "(no entry)"),
        ({"shared_pool": cpus("0")}, "shared pool", "0,3", "0"),
        ({"state_file": None}, "state file", "{}", "(no file)"),
        (
            {"cpusets": {"a": {"c": None}, "s": {"c": cpus("0,3")}}},
            "cpuset of the running container a/c", "1-2", "(no cpuset)",
        ),
        (
            {"cpusets": {"a": {"c": cpus("1-2")}}},
            "cpuset of the running container s/c", "0,3", "(no entry)",
        ),
    ],
)  # fmt: skip
def test_each_difference_is_named(
    changes: dict[str, object], what: str, expected: str, seen: str
) -> None:
    found = differences(GOOD, replace(GOOD, **changes), ALL)  # type: ignore[arg-type]
    assert [(one.what, one.expected, one.seen) for one in found] == [(what, expected, seen)]


FILE = '{"policyName":"static","defaultCpuSet":"0,3","entries":{"u":{"c":"1-2"}},"checksum":7}'


@pytest.mark.parametrize(
    "seen",
    [
        '{"checksum":7,"entries":{"u":{"c":"1-2"}},"defaultCpuSet":"0,3","policyName":"static"}',
        FILE.replace(",", ", ").replace(":", ": ").replace("0, 3", "0,3") + "\n",
    ],
    ids=["another order", "blanks"],
)
def test_a_state_file_of_the_same_content_is_the_same(seen: str) -> None:
    """The kubelet reads JSON, whose keys have no order."""
    assert differences(replace(GOOD, state_file=FILE), replace(GOOD, state_file=seen), ALL) == []


@pytest.mark.parametrize(
    "seen",
    [
        FILE.replace("7", "8"),
        FILE.replace("static", "none"),
        FILE.replace('"checksum":7', '"checksum":7,"more":1'),
        FILE[:-1],
        "",
        "[" * 100_000,
        None,
    ],
    ids=["checksum", "policy", "more", "cut off", "empty", "nested deeply", "no file"],
)
def test_a_state_file_of_other_content_is_another(seen: str | None) -> None:
    """Whatever the CPUs in it."""
    wanted = replace(GOOD, state_file=FILE)
    (found,) = differences(wanted, replace(GOOD, state_file=seen), ALL)
    assert found.what == "state file"


def test_what_the_subject_cannot_show_is_not_compared() -> None:
    """A capability that is missing hides its differences, and no others."""
    seen = replace(GOOD, cpusets={}, shared_pool=cpus("0"))
    assert len(differences(GOOD, seen, ALL)) == 3
    assert [one.what for one in differences(GOOD, seen, {Capability.STATE_FILE})] == ["shared pool"]
    assert differences(GOOD, seen, set()) == []


def test_the_cgroup_of_a_pod_is_compared_where_its_weight_is_seen() -> None:
    """Real nodes show a quota alone, which their systemd may have rounded."""
    wanted = replace(GOOD, pod_cfs={"a": CFS(1_500, 16, weight=1), "b": CFS(None, 2, weight=1)})
    for cfs, count in ((CFS(2_000), 0), (CFS(2_000, weight=1), 1), (CFS(1_500, weight=1), 0)):
        assert len(differences(wanted, replace(GOOD, pod_cfs={"a": cfs}), ALL)) == count


def test_errors_are_compared_up_to_gos_json_texts() -> None:
    """Those depend on the Go release that built the kubelet."""
    one = View(running=False, error="could not restore: json: cannot unmarshal x", exit_status=1)
    other = replace(one, error="could not restore: json: cannot unmarshal y")
    assert differences(one, other, ALL) == []
    wrong = replace(one, error="could not restore: checkpoint is corrupted")
    assert [found.what for found in differences(one, wrong, ALL)] == ["kubelet's error"]
    assert [found.what for found in differences(one, replace(one, exit_status=2), ALL)] == [
        "kubelet's exit status"
    ]


EXCLUSIVE_AS_ASKED = (
    "Only whole CPUs of a Guaranteed pod's containers are exclusive, as many as requested"
)
AS_BOOKED = "A running container's cpuset is what the state file says"


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        (
            {"assignments": {"a": {"c": cpus("1-2")}, "b": {"c": cpus("2")}}},
            "Exclusive CPUs belong to one container alone",
        ),
        ({"shared_pool": cpus("0,2-3")}, "No exclusive CPU is in the shared pool"),
        ({"shared_pool": cpus("0")}, "Every CPU is either exclusive or in the shared pool"),
        ({"shared_pool": cpus("0,3-4")}, "Every CPU is either exclusive or in the shared pool"),
        ({"shared_pool": cpus("3")}, "Reserved CPUs stay in the shared pool"),
        ({"shared_pool": CPUSet()}, "The shared pool is never empty"),
        ({"assignments": {"a": {"c": cpus("1-2")}, "s": {"c": cpus("3")}}}, EXCLUSIVE_AS_ASKED),
        ({"assignments": {"a": {"c": cpus("1")}}}, EXCLUSIVE_AS_ASKED),
        ({"cpusets": {"a": {"c": cpus("1-3")}}}, AS_BOOKED),
        ({"cpusets": {"s": {"c": cpus("0")}}}, AS_BOOKED),
    ],
)
def test_each_invariant_can_fail(changes: dict[str, object], rule: str) -> None:
    broken = violations(replace(GOOD, **changes), SITUATION)  # type: ignore[arg-type]
    assert rule in {one.rule for one in broken}


def _strictly(option: str = "t", **config: Any) -> KubeletConfig:
    """The option ``strict-cpu-reservation`` beside CPU 0, unless another reservation is named."""
    reserved = {"reserved_system_cpus": cpus("0"), **config}
    return KubeletConfig(**reserved, policy_options={"strict-cpu-reservation": option})


STRICT = replace(SITUATION, config=_strictly())
STRICT_GOOD = replace(GOOD, shared_pool=cpus("3"), cpusets={**GOOD.cpusets, "s": {"c": cpus("3")}})
_AMOUNT = _strictly(reserved_system_cpus=None, system_reserved="700m")
BY_AMOUNT = replace(SITUATION, config=_AMOUNT, reserved=None)
OFF = replace(SITUATION, config=_strictly("false"))
_STRICT_RULE = "Every CPU but the strictly reserved ones is either exclusive or in the shared pool"


@pytest.mark.parametrize("situation", [STRICT, BY_AMOUNT], ids=["by list", "by amount"])
def test_under_a_strict_reservation_reserved_cpus_are_out_of_the_pool(situation: Situation) -> None:
    """A pool that holds them, or misses another CPU, breaks the rule."""
    for pool in ("0,3", "3-4", ""):
        view = replace(STRICT_GOOD, shared_pool=cpus(pool), cpusets={})
        assert [one.rule for one in violations(view, situation)] == [_STRICT_RULE]


def _sharing(kind: Kind, **changes: object) -> tuple[View, Situation]:
    """Two containers of a pod on the same CPUs. The first is of this kind."""
    pod = guaranteed_of("a", [exclusive("first", 2, kind=kind), exclusive("c", 2)])
    held = {"first": cpus("1-2"), "c": cpus("1-2")}
    view = replace(GOOD, assignments={"a": held}, cpusets={"a": dict(held)})
    return view, replace(SITUATION, pods={"a": replace(pod, **changes)})  # type: ignore[arg-type]


REUSED, AS_A_WHOLE = (
    _sharing(Kind.INIT), _sharing(Kind.APP, resources=PodResources(cpu_request="2", cpu_limit="2"))
)  # fmt: skip
TAMPERED = replace(GOOD, cpusets={"a": {"c": cpus("0-3")}})
#: Containers of a pod that a 1.26 refuses at its start (behaviour ``REFUSED_MAY_RUN_ON``).
FORGOTTEN = replace(
    GOOD,
    pods={**GOOD.pods, "s": PodView(Phase.REJECTED, "R", "M")},
    cpusets={**GOOD.cpusets, "s": {"c": cpus("1-2")}},
)
POOL_0 = replace(STRICT_GOOD, shared_pool=cpus("0"), cpusets={})


@pytest.mark.parametrize(
    ("view", "situation"),
    [
        (View(running=False), SITUATION),
        (View(running=False, error="no"), SITUATION),
        (View(running=True), replace(SITUATION, config=KubeletConfig(policy="none"))),
        (replace(GOOD, cpusets={}), replace(SITUATION, pods={})),
        (TAMPERED, replace(SITUATION, tampered={("a", "c")})),
        REUSED,
        AS_A_WHOLE,
        (FORGOTTEN, replace(SITUATION, release="1.26")),
        (STRICT_GOOD, STRICT),
        (STRICT_GOOD, BY_AMOUNT),
        (POOL_0, BY_AMOUNT),
        (GOOD, OFF),
    ],
    ids=[
        "down", "gave up", "policy none", "a uid of nobody", "tampered with", "init container",
        "pod-level resources", "a release may forget", "strict by list", "strict by amount",
        "CPU 3 may be reserved by amount", "strict is off",
    ],
)  # fmt: skip
def test_nothing_is_accused_that_may_be_so(view: View, situation: Situation) -> None:
    assert violations(view, situation) == []


@pytest.mark.parametrize(
    ("view", "situation", "what", "missing"),
    [
        (TAMPERED, SITUATION, "cpuset a/c", ""),
        (*_sharing(Kind.SIDECAR), "exclusive CPUs a/c and a/first", ""),
        (FORGOTTEN, replace(SITUATION, release="1.27"), "cpuset s/c", "0,3"),
        (POOL_0, STRICT, "exclusive CPUs and shared pool", "3"),
        (STRICT_GOOD, OFF, "exclusive CPUs and shared pool", "0"),
    ],
)
def test_the_same_is_accused_where_it_may_not(
    view: View, situation: Situation, what: str, missing: str
) -> None:
    first, *_ = violations(view, situation)
    assert (first.difference.what, first.difference.missing) == (what, missing)


EMPTIED = replace(
    GOOD,
    assignments={"a": {"c": cpus("1-3")}},
    shared_pool=CPUSet(),
    cpusets={"a": {"c": cpus("1-3")}, "s": {"c": cpus("0")}},
)


@pytest.mark.parametrize(("seen", "met"), [(None, "1-3"), (cpus("0,2-3"), "2-3")])
def test_a_shared_container_on_exclusive_cpus_is_never_overlooked(
    seen: CPUSet | None, met: str
) -> None:
    """Under a strict reservation that has emptied the pool, what a shared container's cpuset has to
    be is not said (kubernetes/kubernetes#141196); what it may not be is."""
    situation = replace(STRICT, pods={"a": guaranteed("a", 3), "s": best_effort("s")})
    assert violations(EMPTIED, situation) == []
    view = replace(EMPTIED, cpusets={**EMPTIED.cpusets, "s": {"c": seen}})
    (found,) = violations(view, situation)
    assert found.rule == EXCLUSIVE_TO_ONE
    assert found.difference.what == "cpuset s/c and exclusive CPUs a/c"
    assert found.difference.unexpected == met
    assert violations(view, replace(situation, tampered={("s", "c")})) == []


def test_exclusive_containers_are_held_to_the_state_file_though_the_pool_is_empty() -> None:
    situation = replace(STRICT, pods={"a": guaranteed("a", 3)})
    wrong = replace(EMPTIED, cpusets={"a": {"c": cpus("1-2")}})
    assert [one.difference.missing for one in violations(wrong, situation)] == ["3"]


@pytest.mark.parametrize(
    ("cores", "release", "gives"),
    [
        ((0, 0, 1), "1.36", True),
        ((0, 0, 1), "1.21", False),
        ((0, 0, 1), "1.36+true-sizes", False),
        ((0, 1), "1.36", False),
    ],
)
def test_busy_cpus_are_given_on_uneven_cores_alone(
    cores: tuple[int, ...], release: str, gives: bool
) -> None:
    """Which is found out of the topology when it is asked for."""
    topology = CPUTopology.of({cpu: (0, 0, core, 0) for cpu, core in enumerate(cores)})
    situation = replace(SITUATION, topology=topology, release=release)
    assert situation.gives_busy_cpus is gives
