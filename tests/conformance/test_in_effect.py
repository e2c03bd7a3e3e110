"""What a kubelet says of its own configuration is read from its log, and compared."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest

from conformance.in_effect import LABEL, differing, in_effect
from conformance.kubelets.configuration import RECONCILE_PERIOD
from conformance.kubelets.durations import seconds
from conformance.kubelets.settings import deciding
from reference.steps import KubeletConfig

HEAD = "I1124 14:42:01.273084      14 "
STRUCTURED = (
    HEAD
    + 'container_manager_linux.go:278] "Creating Container Manager object based on Node Config" '
    'nodeConfig={"NodeName":"n","ReservedSystemCPUs":{},"CPUManagerPolicy":"static",'
    '"CPUManagerPolicyOptions":{"strict-cpu-reservation":"true","full-pcpus-only":"on"},'
    '"TopologyManagerScope":"pod","CPUManagerReconcilePeriod":100000000,'
    '"MemoryManagerPolicy":"None","TopologyManagerPolicy":"restricted",'
    '"TopologyManagerPolicyOptions":null,"CgroupVersion":2}'
)
RESERVED = (
    HEAD + 'policy_static.go:202] "Reserved CPUs not available for exclusive assignment" '
    'reservedSize=2 reserved="0,16"'
)
#: As 1.20 writes both.
PLAIN = (
    HEAD + "container_manager_linux.go:272] Creating Container Manager object based on Node "
    "Config: {RuntimeCgroupsName: ContainerRuntime:remote ExperimentalCPUManagerPolicy:static "
    "ExperimentalTopologyManagerScope:container ExperimentalCPUManagerReconcilePeriod:1m0.5s "
    "ExperimentalTopologyManagerPolicy:none}",
    HEAD + "policy_static.go:109] [cpumanager] reserved 1 CPUs (\"0\") not available for exclusive "
    "assignment",
)  # fmt: skip


GIVEN_TO_STRUCTURED = (
    "policy static, option full-pcpus-only=on, option strict-cpu-reservation=true, "
    "Topology Manager restricted, Topology Manager scope pod"
)


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (
            [STRUCTURED, RESERVED],
            "policy static, reservedSystemCPUs 0,16, option full-pcpus-only=on, "
            "option strict-cpu-reservation=true, Topology Manager restricted, "
            "Topology Manager scope pod, memory manager None, cpuManagerReconcilePeriod 0.1 s, "
            "Topology Manager options none",
        ),
        (
            PLAIN,
            "policy static, reservedSystemCPUs 0, Topology Manager none, "
            "Topology Manager scope container, cpuManagerReconcilePeriod 60.5 s",
        ),
        ([], ""),
        ([RESERVED, "anything"], ""),
    ],
    ids=["of 1.36", "of 1.20", "none", "no settings"],
)
def test_settings_are_told_as_a_configuration_is(log: Sequence[str], told: str) -> None:
    """The period of an older log is as Go writes one."""
    assert in_effect(log) == told


def test_the_last_start_counts() -> None:
    """A kubelet that gave up before its policy was made did not say what it reserves."""
    again = STRUCTURED.replace("restricted", "none")
    assert "reservedSystemCPUs" not in in_effect([STRUCTURED, RESERVED, again])
    assert "Topology Manager none" in in_effect([STRUCTURED, RESERVED, again])


STARTED = "start the kubelet"
GIVEN = "on m, with policy static, reservedSystemCPUs 0,16, option full-pcpus-only=true"
SAME = f"{LABEL}policy static, reservedSystemCPUs 0,16, option full-pcpus-only=true, " + (
    "Topology Manager none, Topology Manager scope container, memory manager None"
)


@pytest.mark.parametrize(
    ("steps", "evidence"),
    [
        ([GIVEN, STARTED], SAME),
        (
            [GIVEN, STARTED, "configure the kubelet: policy static", STARTED],
            f"{LABEL}policy static",
        ),
        (
            ["on m, with policy static, systemReserved cpu 2"],
            f"{LABEL}policy static, reservedSystemCPUs 0,16",
        ),
        ([GIVEN], ""),
        ([GIVEN], "E1124 a kubelet that said nothing of it"),
        (["no configuration"], SAME),
    ],
    ids=["as given", "the last one given", "CPUs of its choice", "none", "silence", "not given"],
)
def test_what_is_no_difference(steps: list[str], evidence: str) -> None:
    assert differing(steps, evidence) == ()


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("reservedSystemCPUs 0,16", "reservedSystemCPUs 1", ("reservedSystemCPUs", "0,16", "1")),
        (", option full-pcpus-only=true", "", ("option full-pcpus-only", "true", "")),
        ("Manager none", "Manager restricted", ("Topology Manager", "none", "restricted")),
        ("scope container", "scope pod", ("Topology Manager scope", "container", "pod")),
        ("policy static", "policy none", ("policy", "static", "none")),
        ("memory manager None", "memory manager Static", ("memory manager", "None", "Static")),
    ],
)
def test_another_setting_is_found(old: str, new: str, found: tuple[str, str, str]) -> None:
    assert differing([GIVEN], f"first\n{SAME.replace(old, new)}\nlast") == (found,)


def _differing(settings: str, *given: str) -> tuple[tuple[str, str, str], ...]:
    """Between what the log has and what is given to it, and more."""
    step = ", ".join((f"on m, with {GIVEN_TO_STRUCTURED}", *given))
    return differing([step], f"{LABEL}{in_effect([settings])}")


def test_the_reconcile_period_is_the_harness_own() -> None:
    """No step tells it. A kubelet that updates containers an hour later breaks many promises."""
    assert f"cpuManagerReconcilePeriod {RECONCILE_PERIOD:g} s" in in_effect([STRUCTURED])
    slow = STRUCTURED.replace(":100000000,", ":3600000000000,")
    assert _differing(slow) == (("cpuManagerReconcilePeriod", "0.1 s", "3600 s"),)
    assert _differing(STRUCTURED) == ()


def test_a_period_that_a_scenario_asks_for_is_the_one_given() -> None:
    """As one does whose admission no reconcile round precedes."""
    *_, period = str(KubeletConfig(reconcile_period=10_000)).split(", ")
    slow = STRUCTURED.replace(":100000000,", ":10000000000,")
    assert _differing(slow, period) == ()
    assert _differing(STRUCTURED, period) == (("cpuManagerReconcilePeriod", "10 s", "0.1 s"),)


def test_options_of_the_topology_manager_are_settings_too() -> None:
    """Where the log has a place for them: a release before 1.26 has none."""
    given = "Topology Manager option closest=true"
    assert _differing(STRUCTURED, given) == (("Topology Manager option closest", "true", ""),)
    kept = STRUCTURED.replace('PolicyOptions":null', 'PolicyOptions":{"closest":"true"}')
    assert _differing(kept, given) == ()
    before = STRUCTURED.replace('"TopologyManagerPolicyOptions":null,', "")
    assert _differing(before, given) == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1h0m0.5s", "3600.5"), (".5s", "0.5"), ("500us", "0.0005"), ("10ns", "1e-8"),
        ("0", "0"), ("10", None), ("", None), ("-1s", None), ("1s ", None), ("1d", None),
        ("9" * 400 + "s", None),
    ],
)  # fmt: skip
def test_durations_are_read_as_go_writes_them(text: str, found: str | None) -> None:
    assert seconds(text) == (None if found is None else Decimal(found))


def test_a_period_of_several_units_is_one() -> None:
    """It was taken for the default."""
    config = deciding({"cpuCFSQuotaPeriod": "0m0.05s"})
    assert config.cpu_cfs_quota_period == 50_000
