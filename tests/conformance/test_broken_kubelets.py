"""Kubelets that are wrong beside their choice of CPUs, each caught by the promise that it breaks,
with the model as a witness and by the promise in words alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from conformance.discovered import info_of
from conformance.results import Result
from conformance.subjects.reference import ReferenceSubject
from reference import NEWEST, CPUSet, Node
from reference.cpumanager.cpu_manager import CPUManager
from reference.cpumanager.metrics import Metrics
from reference.cpumanager.policy_static import StaticPolicy
from reference.kubelet.pod_resources import PodResources
from reference.steps import KubeletConfig
from tests.conformance.judging import judged

MACHINE = "2s-2n-8c-smt2"


def _with(name: str, **methods: Callable[..., object]) -> type[CPUManager]:
    """A CPU manager some of whose methods are these."""
    return type(name, (CPUManager,), methods)


def _nothing(*_: object) -> None:
    """The method has no effect."""


#: CPUs of pods that have ended stay taken (pull request 52363).
KeepsEnded = _with("KeepsEnded", remove_stale_state=_nothing)
#: Until the next reconcile round the CPUs of a pod that is gone are taken.
ClearsInRoundsAlone = _with("ClearsInRoundsAlone", begin_admission=_nothing)
#: An update that was refused counts as done.
TriesOnce = _with("TriesOnce", update_failed=_nothing)
#: Whoever asks which container has CPUs of its own hears of none (issue 70585), all or CPU 0.
KeepsQuotas = _with("KeepsQuotas", exclusive_cpus=lambda *_: CPUSet())
LiftsQuotas = _with("LiftsQuotas", exclusive_cpus=lambda self, *which: self.affinity(*which))
ReportsCPU0 = _with("ReportsCPU0", exclusive_cpus=lambda *_: CPUSet([0]))
#: Requests for exclusive CPUs are not counted.
CountsNothing = _with("CountsNothing", _counted=lambda self, *_, **__: self.metrics)


class LosesRestarted(CPUManager):
    """A container that is created again has no CPUs of its own any more (issue 90303)."""

    def add_container(self, uid: str, container: str) -> None:
        if (uid, container) in self._known:
            self.remove_container(uid, container)
        super().add_container(uid, container)


class FirstPool(CPUManager):
    """Shared containers that come back get the pool that they were created with."""

    def affinity(self, uid: str, container: str) -> CPUSet:
        pools: dict[str, CPUSet] = self.__dict__.setdefault("pools", {})
        own = super().affinity(uid, container)
        return pools.setdefault(uid, own) if self.state.get(uid, container) is None else own


class FreesEachContainer(CPUManager):
    """CPUs return with each container, whatever becomes of its pod."""

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        for uid, named in list(self.state.entries.items()):
            for name in list(named):
                if not running(uid, name):
                    self.remove_container(uid, name)
        return super().reconcile(running)


class CreatesWithout(CPUManager):
    """Containers are created without a cpuset, and get theirs in the next round."""

    def affinity(self, uid: str, container: str) -> CPUSet:
        known = (uid, container) in self._known
        return super().affinity(uid, container) if known else CPUSet()

    def add_container(self, uid: str, container: str) -> None:
        self._known.add((uid, container))


class CountsErrorsAlone(CPUManager):
    """A request that is refused counts as an error alone."""

    def _counted(self, taken: int, *, failed: bool) -> Metrics:
        counted = super()._counted(taken, failed=failed)
        return counted._replace(requests=self.metrics.requests) if failed else counted


class CountsLentOnce(CPUManager):
    """What an init container has lent comes back twice, as it was counted twice."""

    def remove_container(self, uid: str, container: str) -> None:
        held, free = len(self.exclusive_cpus(uid, container)), len(self.state.default)
        super().remove_container(uid, container)
        self.metrics = self.metrics.returned(held - (len(self.state.default) - free))


@dataclass(frozen=True)
class Broken:
    """``wrong``: a CPU manager, or behaviours switched on or off; ``says``: what must be read in
    the explanation."""

    wrong: type[CPUManager] | str
    scenario: str
    says: str
    release: str = NEWEST

    def __str__(self) -> str:
        wrong = self.wrong if isinstance(self.wrong, str) else self.wrong.__name__
        return f"{wrong}-{self.scenario}"


BROKEN = [
    Broken(LosesRestarted, "node/killed-container-keeps-its-cpus", "exclusive CPUs a/c"),
    Broken(LosesRestarted, "containers/killed-sidecar-keeps-its-cpus", "exclusive CPUs a/sidecar"),
    Broken(LosesRestarted, "containers/failed-container-comes-back-on-its-cpus", "a/c"),
    Broken(LosesRestarted, "containers/restart-rule-keeps-all-cpus", "exclusive CPUs a/main"),
    Broken(LosesRestarted, "containers/own-restart-policy-decides", "exclusive CPUs a/again"),
    Broken(KeepsEnded, "containers/own-restart-policy-decides", "Its CPUs are shared again"),
    Broken(FreesEachContainer, "containers/own-restart-policy-decides", "CPUs a/once"),
    Broken(FirstPool, "containers/killed-shared-container-gets-the-pool", "cpuset"),
    Broken(KeepsEnded, "containers/failed-pod-returns-its-cpus", "Its CPUs are shared again"),
    Broken(KeepsEnded, "containers/ended-pod-returns-its-cpus", "not enough cpus"),
    Broken(KeepsEnded, "containers/short-pods-follow-one-another", "not enough cpus"),
    Broken(KeepsEnded, "node/forced-deletion-leaks-nothing", "shared pool"),
    Broken(KeepsQuotas, "node/exclusive-cpus-have-no-quota", "CFS quota of a/c"),
    Broken(LiftsQuotas, "node/exclusive-cpus-have-no-quota", "CFS quota of b/c"),
    Broken(LiftsQuotas, "containers/limits-become-quotas", "CFS quota of mixed/c2"),
    Broken(LiftsQuotas, "containers/shares-outlive-pool-changes", "CFS quota of b/c"),
    Broken(
        ClearsInRoundsAlone, "admission/cpus-are-free-right-after-a-deletion", "phase of second"
    ),
    Broken(FreesEachContainer, "containers/pod-keeps-its-cpus-until-it-ends", "a/c1"),
    Broken(FreesEachContainer, "containers/rounds-free-no-cpus-of-a-pod-that-runs", "CPUs a/c1"),
    Broken(LiftsQuotas, "containers/quotas-end-at-exclusive-cpus", "CFS quota of mixed/c2"),
    Broken(ReportsCPU0, "pod-resources/every-container-is-reported", "reports for a/c1"),
    Broken("no-quota-on-exclusive-cpus", "node/exclusive-cpus-keep-their-quota", "a/c", "1.32"),
    Broken(CountsNothing, "metrics/requests-are-counted", "Each container is counted"),
    Broken(CountsNothing, "metrics/alignment-is-counted", "Whole cores are counted"),
    Broken(CountsNothing, "metrics/gauges-follow-the-cpus", "Two are taken"),
    Broken(CountsErrorsAlone, "metrics/refusals-are-counted", "pinning_requests_total"),
    Broken(CountsLentOnce, "metrics/gauges-drift-over-init-containers", "counted too many"),
    Broken(TriesOnce, "containers/refused-update-is-tried-again", "cpuset shared/c"),
    Broken(CreatesWithout, "containers/start-on-their-cpus", "with which a/c was started"),
    Broken("updated-on-change=off", "containers/idle-rounds-update-nothing", "updates"),
    Broken(
        "updated-on-change=off", "containers/start-updates-each-container-once", "Nothing was sent"
    ),
    Broken(
        "updated-on-change", "containers/idle-rounds-update-every-container", "updates of", "1.21"
    ),
    Broken(KeepsQuotas, "pod-resources/get-reports-one-pod", "CPUs that Get reports for a/c"),
    Broken(KeepsQuotas, "pod-resources/restart-reports-the-same", "reports for a/c"),
    Broken(KeepsQuotas, "node/pod-resources-report-exclusive-cpus", "reports for a/c"),
    Broken(ReportsCPU0, "pod-resources/policy-none-reports-no-cpu", "reports for a/c"),
    Broken("shared-pool-reported", "pod-resources/fractions-have-no-cpu", "for mixed/c2"),
    Broken("shared-pool-reported", "pod-resources/get-reports-one-pod", "for shared/c"),
    Broken("shared-pool-reported=off", "node/pod-resources-report-the-shared-pool", "s", "1.22"),
    Broken("sidecars-reported=off", "pod-resources/sidecars-are-reported", "a/sidecar"),
    Broken("active-pods-reported=off", "pod-resources/inactive-pods-are-left-out", "refused/c"),
    Broken("allocatable-is-whole=off", "pod-resources/allocatable-is-all-but-reserved", "1,9"),
    Broken("pod-resources-get", "pod-resources/get-is-off-by-default", "refused", "1.32"),
    Broken("pod-resources-get=off", "pod-resources/get-reports-one-pod", "method disabled"),
    Broken("pod-pools-reported=off", "pod-level/pool-is-reported-of-the-pod", "a/one", "1.37"),
    Broken("pod-pools-reported", "pod-level/pool-is-reported-as-exclusive", "a/one", "1.36"),
]


def _judged(broken: Broken, wrong: type[CPUManager] | str, *, model: bool) -> Result:
    manager = CPUManager if isinstance(wrong, str) else wrong
    variant = wrong if isinstance(wrong, str) else ""

    def make(
        trees: Callable[[str], Mapping[str, str]], name: str, config: KubeletConfig, release: str
    ) -> Node:
        release = f"{release}+{variant}" if variant else release
        return Node(
            trees, name, config, release=release, manager_factory=manager, discovering=info_of
        )

    subject = ReferenceSubject(release=broken.release, make=make)
    return judged(broken.scenario, MACHINE, subject, release=broken.release, model=model)


@pytest.mark.parametrize("model", [True, False], ids=["model", "promise alone"])
@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_it_is_caught(broken: Broken, model: bool) -> None:
    result = _judged(broken, broken.wrong, model=model)
    assert result.verdict == "fail", result.explanation
    if model:
        assert _judged(broken, CPUManager, model=True).verdict == "pass", "or it catches everybody"
    else:
        assert broken.says in result.explanation


class SendsTwice(CPUManager):
    """Sends each change two times, which breaks no promise."""

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        return [one for one in super().reconcile(running) for _ in range(2)]


@pytest.mark.parametrize(
    "scenario",
    [
        "containers/start-updates-each-container-once",
        "containers/idle-rounds-update-nothing",
        "containers/refused-update-is-tried-again",
        "pool/shrinks-and-grows",
    ],
)
def test_an_update_more_than_needed_is_not_accused(scenario: str) -> None:
    broken = Broken(SendsTwice, scenario, "")
    result = _judged(broken, SendsTwice, model=True)
    assert result.verdict == "pass", result.explanation


def _always(*_: object) -> bool:
    return True


def _unchanged(self: Metrics, *, failed: bool) -> Metrics:
    return self


@pytest.mark.parametrize(
    ("where", "wrong", "scenario", "says"),
    [
        (
            (PodResources, "_is_reported"), _always,
            "pod-resources/init-containers-are-left-out", "a/init",
        ),
        (
            (StaticPolicy, "is_in_one_cache"), _always,
            "metrics/uncore-caches-are-counted", "Several are not",
        ),
        (
            (Metrics, "admitted"), _unchanged,
            "metrics/admissions-are-counted", "An admission is counted",
        ),
    ],
)  # fmt: skip
def test_a_part_that_is_wrong_is_caught(
    where: tuple[type, str],
    wrong: Callable[..., object],
    scenario: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Parts that no variant of the model replaces."""
    monkeypatch.setattr(*where, wrong)
    broken = Broken("", scenario, says)
    result = _judged(broken, broken.wrong, model=False)
    assert result.verdict == "fail", result.explanation
    assert broken.says in result.explanation
    monkeypatch.undo()
    assert _judged(broken, broken.wrong, model=False).verdict == "pass"
