"""The promises that a scenario states in its own words."""

from __future__ import annotations

from conformance.checks import (
    KUBELET_REFUSES,
    cpu_difference,
    kubelet_text,
    pod_resources_difference,
)
from conformance.lockstep.comparison import Offence
from conformance.lockstep.outcome import Divergence
from conformance.lockstep.reading import Readings
from conformance.results import Difference
from reference import CPUSet


class Promises(Readings):
    """States promises; a broken one raises :class:`conformance.lockstep.Divergence`."""

    def promise(self, holds: bool, rule: str, *found: Difference) -> None:
        """State a promise; ``found`` has what was expected and seen if it does not hold."""
        if not holds:
            raise Divergence(self._failure(Offence(rule, list(found)), None))

    def promise_cpus(self, rule: str, what: str, expected: CPUSet, seen: CPUSet) -> None:
        """Promise that a set of CPUs is exactly this one."""
        self.promise(expected == seen, rule, cpu_difference(what, expected, seen))

    def promise_pool(self, rule: str, expected: CPUSet) -> None:
        """Promise that the shared pool is exactly these CPUs."""
        self.promise_cpus(rule, "shared pool", expected, self.view.shared_pool)

    def promise_taken(self, rule: str, pod: str, expected: CPUSet, container: str = "c") -> None:
        """Promise that a container has exactly these exclusive CPUs."""
        seen = self.taken(pod, container)
        self.promise_cpus(rule, f"exclusive CPUs {pod}/{container}", expected, seen)

    def promise_cpuset(self, rule: str, pod: str, expected: CPUSet, container: str = "c") -> None:
        """Promise that a running container's cpuset is exactly this one."""
        seen = self.cpuset(pod, container)
        self.promise_cpus(rule, f"cpuset {pod}/{container}", expected, seen)

    def promise_on_pool(self, rule: str, pod: str, *containers: str) -> None:
        """Promise that each of these containers runs on the whole shared pool."""
        for container in containers:
            self.promise_cpuset(rule, pod, self.view.shared_pool, container)

    def promise_pod_resources(
        self, rule: str, pod: str, expected: CPUSet, container: str = "c"
    ) -> None:
        """Promise that the kubelet's last answer at its pod-resources socket has exactly these CPUs
        for a container. If they are none, it still has an entry for the container."""
        seen = self.pod_resources(pod, container)
        self.promise(
            expected == seen, rule, pod_resources_difference(pod, container, expected, seen)
        )

    def promise_that(
        self, holds: bool, rule: str, what: str, expected: object, seen: object
    ) -> None:
        """State a promise about one value."""
        self.promise(holds, rule, Difference(what=what, expected=str(expected), seen=str(seen)))

    def promise_equal(self, rule: str, what: str, expected: object, seen: object) -> None:
        """Promise that a value is exactly this one."""
        self.promise_that(expected == seen, rule, what, expected, seen)

    def promise_refusal(self, *texts: str) -> None:
        """Promise that the kubelet did not start, and that its error has these texts in it."""
        view = self.view
        self.promise_that(not view.running, KUBELET_REFUSES, "kubelet", "gives up", "runs")
        rule, what = "The kubelet's error says why", "kubelet's error"
        for text in texts:
            self.promise_that(text in view.error, rule, what, f"… {text} …", view.error)

    def promise_running(self, rule: str) -> None:
        """Promise that the kubelet runs."""
        self.promise_that(self.view.running, rule, "kubelet", "runs", kubelet_text(self.view))
