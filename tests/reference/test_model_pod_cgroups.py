"""Quota and weight of the cgroup of a pod, and of the one that all Burstable pods are in. The rows
are what kubelets 1.36.4 and 1.37.0 wrote (``quotas`` scenarios), or come from their code."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.pods import burstable, exclusive, guaranteed
from reference import CPUSet, Node
from reference.kubelet.cpu_quota import (
    burstable_weight,
    cpu_weight,
    pod_cfs,
    resized,
    sandbox_quota,
)
from reference.steps import (
    Apply,
    Configure,
    Container,
    Delete,
    Kind,
    KubeletConfig,
    Pod,
    PodResources,
    Reboot,
    Start,
    Stop,
)
from reference.view import CFS
from tests.reference.nodes import booted, do

CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0]))
WITH_QUOTAS = replace(CONFIG, feature_gates={"DisableCPUQuotaWithExclusiveCPUs": False})

_of = partial(pod_cfs, exclusive=False, feature_gates={}, period=100_000, release="1.36")
_sandbox = partial(sandbox_quota, exclusive=False, feature_gates={}, period=100_000, release="1.36")


def _one(name: str, limit: str | None, kind: Kind = Kind.APP) -> Container:
    return Container(name, cpu_request="100m", cpu_limit=limit, kind=kind)


@pytest.mark.parametrize(
    ("containers", "resources", "quota", "shares"),
    [
        ([_one("a", "1"), _one("b", "500m")], None, 150_000, 204),
        ([_one("a", "1"), _one("b", None)], None, None, 204),
        ([_one("a", "1"), _one("b", "0")], None, None, 204),
        ([_one("i", "2", Kind.INIT), _one("a", "1")], None, 200_000, 102),
        ([_one("i", None, Kind.INIT), _one("a", "1")], None, None, 102),
        ([_one("s", "1", Kind.SIDECAR), _one("i", "2", Kind.INIT), _one("a", "1")],
         None, 300_000, 204),
        ([_one("a", "5m")], None, 1_000, 102),
        ([_one("a", "1"), _one("b", None)], PodResources("1", "3"), 300_000, 1024),
        ([_one("a", "1"), _one("b", "1")], PodResources("1", None), 200_000, 1024),
        ([Container("a")], None, None, 2),
        ([Container("a")], PodResources("2", "4"), 400_000, 2048),
    ],
)  # fmt: skip
def test_what_a_pods_cgroup_is_made_with(
    containers: list[Container], resources: PodResources | None, quota: int | None, shares: int
) -> None:
    seen = _of(Pod("p", tuple(containers), resources=resources))
    assert (seen.quota, seen.shares, seen.weight) == (quota, shares, cpu_weight(shares))


def test_a_sidecars_limit_covers_later_init_containers_up_to_1_36() -> None:
    limited, side = _one("s1", "1", Kind.SIDECAR), _one("s2", None, Kind.SIDECAR)
    for later in (side, _one("i", None, Kind.INIT)):
        pod = Pod("p", (limited, later, _one("a", "1")))
        assert [_of(pod, release=release).quota for release in ("1.36", "1.37")] == [200_000, None]
        before = Pod("p", (later, limited, _one("a", "1")))
        assert _of(before).quota is None


def test_a_sandbox_is_created_with_all_limits_that_there_are() -> None:
    init, side = _one("i", "3", Kind.INIT), _one("s", "1", Kind.SIDECAR)
    apps = (_one("a", "500m"), _one("b", None))
    pods = [Pod("p", every) for every in (apps, (*apps, side), (init, *apps), apps[1:])]
    pods += [Pod("p", apps, resources=PodResources("1", limit)) for limit in ("2", None)]
    assert [_sandbox(pod) for pod in pods] == [50_000, 150_000, 300_000, None, 200_000, 50_000]
    assert _sandbox(pods[0], period=10_000) == 5_000
    assert _sandbox(pods[0], period=None) is None


def test_exclusive_cpus_lift_that_of_a_sandbox_from_1_33_on() -> None:
    pod = guaranteed("a", 2)
    quotas = [_sandbox(pod, release=one, exclusive=True) for one in ("1.32", "1.33")]
    assert quotas == [200_000, None]


def test_a_sandbox_keeps_its_quota_until_the_machine_boots() -> None:
    """Which quota it has is known from 1.26 on."""
    made = booted(Apply(guaranteed("a", 1)), config=WITH_QUOTAS)
    do(made, Stop(), Configure(CONFIG), Start())
    assert made.view().sandbox_quotas == {"a": 100_000}
    assert [*made._runtime.copy().sandbox_quotas().values()] == [100_000]
    do(made, Stop(), Reboot(), Start())
    assert made.view().sandbox_quotas == {"a": None}
    assert do(made, Delete("a")).sandbox_quotas == {}
    old = booted(Apply(guaranteed("a", 1)), config=CONFIG, release="1.25")
    assert old.view().sandbox_quotas == {}


def test_exclusive_cpus_lift_it_from_1_33_on() -> None:
    pod = guaranteed("a", 2)
    quotas = [_of(pod, release=one, exclusive=True).quota for one in ("1.32", "1.33", "1.37")]
    assert quotas == [200_000, None, None]


def test_it_is_of_the_period_that_is_configured() -> None:
    assert _of(guaranteed("a", "500m"), period=10_000) == CFS(5_000, 512, 10_000, 20)
    assert _of(guaranteed("a", "500m"), period=None) == CFS(None, 512, weight=20)


@given(st.integers(2, 1 << 18), st.integers(2, 1 << 18))
def test_weights_rise_with_shares(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert 1 == cpu_weight(2) <= cpu_weight(low) <= cpu_weight(high) <= cpu_weight(1 << 18) == 10000


def test_burstable_pods_weigh_together() -> None:
    whole = Pod("w", (Container("c"),), resources=PodResources("1", None))
    pods = [burstable("b", request="500m"), whole, guaranteed("g", 1), Pod("e", (Container("c"),))]
    assert burstable_weight(pods) == cpu_weight(1536)
    assert burstable_weight([]) == 1


def test_a_cgroup_outlives_the_kubelet_and_not_the_machine_or_its_pod() -> None:
    made = booted(Apply(guaranteed("a", 1)), config=WITH_QUOTAS)
    assert made.view().pod_cfs["a"].quota == 100_000
    do(made, Stop(), Configure(CONFIG), Start())
    assert made.view().pod_cfs["a"].quota == 100_000
    do(made, Stop(), Reboot(), Start())
    assert made.view().pod_cfs["a"].quota is None
    do(made, Stop(), Configure(WITH_QUOTAS), Start(), Delete("a"), Apply(guaranteed("a", 1)))
    assert made.view().pod_cfs["a"].quota == 100_000
    do(made, Delete("a"))
    assert made.view().pod_cfs == {}


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        # 489m and 500m have the weight 20, which is read as 500 shares; 489m are 500 shares.
        (CFS(None, 512, weight=20), CFS(None, 500, weight=19), CFS(None, 500, weight=20)),
        (CFS(None, 512, weight=20), CFS(None, 499, weight=19), CFS(None, 499, weight=19)),
        (CFS(50_000, 512, weight=20), CFS(50_000, 512, 50_000, 20), CFS(50_000, 512, weight=20)),
        (CFS(50_000, 512, weight=20), CFS(60_000, 512, 50_000, 20), CFS(60_000, 512, 50_000, 20)),
        (CFS(None, 512, weight=20), CFS(50_000, 512, 50_000, 20), CFS(50_000, 512, 50_000, 20)),
    ],
)
def test_a_resize_writes_what_is_read_as_another(before: CFS, after: CFS, seen: CFS) -> None:
    assert resized(before, after) == seen


def test_1_36_writes_the_cgroups_of_what_1_32_has_started() -> None:
    """It has no record of their resources. 1.37 leaves them alone. Seen on all three."""
    for newer, quota in (("1.36", None), ("1.37", 200_000)):
        old = booted(Apply(guaranteed("a", 2)), Stop(), config=CONFIG, release="1.32")
        new = old.handed_over(partial(Node, release=newer))
        do(new, Start())
        assert new.view().pod_cfs["a"].quota == quota


def test_the_cgroup_of_another_class_is_not_known() -> None:
    """A kubelet to which a pod has another class kills its containers, and makes another cgroup."""
    pod = Pod("a", (Container("c", "250m", "500m"),), resources=PodResources())
    old = booted(Apply(pod), Stop(), config=CONFIG, release="1.36")
    assert old.view().pod_cfs["a"].weight == 1
    new = old.handed_over(partial(Node, release="1.37"))
    do(new, Start())
    assert "a" not in new.view().pod_cfs


def test_an_older_kubelets_cgroups_are_not_known() -> None:
    made = booted(Apply(Pod("a", (exclusive("c", 1),))), config=CONFIG, release="1.31")
    assert made.view().pod_cfs == {}
