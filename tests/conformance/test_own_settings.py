"""Scenarios on nodes that keep their owner's settings, which are not held against a kubelet."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from conformance.catalogue import catalogue
from conformance.subject import NOT_OF_REAL_NODES, Capability
from conformance.subjects.reference import ReferenceSubject, right_node
from hil.safety.risk import RISK_OF, Risk
from reference import CPUSet
from reference.steps import KubeletConfig
from tests.conformance.judging import judged

MACHINE = "2s-2n-8c-smt2"
PERIOD = {"cpu_cfs_quota_period": 10_000}
STATIC_MEMORY: dict[str, Any] = {
    "memory_manager_policy": "Static", "reserved_memory": {0: "512Mi", 1: "512Mi"}
}  # fmt: skip


class InUse(ReferenceSubject):
    """The model of a node that keeps its settings, as ``--max-risk pods`` leaves it."""

    def __init__(self, release: str = "1.36", make: Any = right_node, **own: Any) -> None:
        super().__init__(release=release, make=make)
        self.own = replace(KubeletConfig(reserved_system_cpus=CPUSet([0, 8])), **own)
        self.capabilities = frozenset(
            one for one in Capability if RISK_OF.get(one, Risk.REBOOT) <= Risk.PODS
        )
        self.lacking = {Capability.CONFIGURE: "needs --max-risk kubelet-restart"}

    def own_config(self, machine: str) -> KubeletConfig:
        return self.own


@pytest.mark.parametrize(
    ("own", "least"),
    [
        ({"policy_options": {"full-pcpus-only": "true"}}, 150),
        ({"policy_options": {"strict-cpu-reservation": "true"}}, 190),
        ({"topology_manager_policy": "restricted"}, 190),
        ({"topology_manager_policy": "single-numa-node", "topology_manager_scope": "pod"}, 180),
        ({"reserved_system_cpus": None, "system_reserved": "1500m"}, 170),
        ({"policy": "none"}, 70),
        ({"cpu_cfs_quota": False}, 200),
        (PERIOD, 200),
    ],
)
def test_no_setting_of_the_owner_is_a_broken_promise(own: dict[str, Any], least: int) -> None:
    """A promise that does not hold with them is not asked for."""
    subject = InUse(**own)
    every = [judged(one, MACHINE, subject) for one in catalogue() if not one.machine]
    wrong = [one.explanation for one in every if one.verdict not in ("pass", "skip")]
    assert wrong == []
    assert Counter(one.verdict for one in every)["pass"] > least


class KeepsMemory(ReferenceSubject):
    """The model of a node whose memory manager stays Static, whatever scenarios configure."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(release="1.36")
        self.capabilities = frozenset(Capability) - NOT_OF_REAL_NODES
        self.own = KubeletConfig(**STATIC_MEMORY, **settings) if settings else None

    def own_config(self, machine: str) -> KubeletConfig | None:
        return self.own

    def memory_manager_of(self, machine: str) -> KubeletConfig:
        return KubeletConfig(**STATIC_MEMORY)


@pytest.mark.parametrize(
    ("settings", "least"),
    [
        ({}, 220),
        ({"reserved_system_cpus": CPUSet([0, 8]), "topology_manager_policy": "restricted"}, 180),
    ],
)
def test_the_owners_memory_manager_stays_beside_every_configuration(
    settings: dict[str, Any], least: int
) -> None:
    subject = KeepsMemory(**settings)
    every = [judged(one, MACHINE, subject) for one in catalogue() if not one.machine]
    wrong = [one.explanation for one in every if one.verdict not in ("pass", "skip")]
    assert wrong == []
    assert Counter(one.verdict for one in every)["pass"] > least
    assert all("memory manager Static" in one.steps[0] for one in every if one.verdict == "pass")


def test_a_promise_that_the_owners_memory_manager_breaks_is_not_asked_for() -> None:
    """Nine CPUs lie in two NUMA nodes, and their memory prefers one."""
    result = judged("topology/restricted-admits-the-fewest", MACHINE, KeepsMemory())
    assert (result.verdict, result.unable) == ("skip", True)
    assert result.reason == (
        "the promise does not hold beside the node's own memory manager, which stays"
    )


def test_what_is_not_asked_for_says_why() -> None:
    """As what a certificate lacks."""
    result = judged(
        "qos/1000m-is-a-whole-cpu", MACHINE, InUse(policy_options={"full-pcpus-only": "true"})
    )
    assert result.verdict == "skip"
    assert result.unable
    assert result.reason == (
        "the promise does not hold with the settings of the node's owner, and the subject cannot "
        "change the kubelet's configuration: needs --max-risk kubelet-restart"
    )
    assert result.steps == []


@pytest.mark.parametrize(
    ("own", "changed", "expected", "seen"),
    [
        ({"cpu_cfs_quota": False}, {"cpu_cfs_quota": True}, "None", "150000"),
        (PERIOD, {"cpu_cfs_quota_period": 100_000}, "15000", "150000"),
    ],
)
def test_a_quota_is_promised_as_the_owner_has_set_it(
    own: dict[str, Any], changed: dict[str, Any], expected: str, seen: str
) -> None:
    """A kubelet that has another one breaks the promise."""

    def wrong(trees: Any, machine: str, config: KubeletConfig, release: str) -> Any:
        return right_node(trees, machine, replace(config, **changed), release)

    ask = partial(judged, "containers/limits-become-quotas", MACHINE, model=False)
    assert ask(InUse(**own)).verdict == "pass"
    result = ask(InUse(make=wrong, **own))
    assert result.verdict == "fail"
    assert f"CFS quota of mixed/c2: {seen}, not {expected}" in result.explanation
