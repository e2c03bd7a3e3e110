"""What a promise is judged against, and the violation of one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from conformance.checks import cpu_difference, each
from conformance.results import Difference
from conformance.subject import Capability
from reference import NEWEST, CPUSet, CPUTopology
from reference.behaviours import Behaviour
from reference.cpumanager.policy_options import is_true
from reference.cpumanager.state.state_checkpoint import parse_pods_leniently
from reference.releases import AnyRelease, has
from reference.steps import KubeletConfig, Pod
from reference.view import View

_NO_CPUS: Final = CPUSet()


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that a view breaks: the rule in words, and where."""

    rule: str
    difference: Difference

    @classmethod
    def of(
        cls, rule: str, what: str, expected: CPUSet | str | None, seen: CPUSet | str | None
    ) -> Violation:
        """``what`` is ``seen`` in place of ``expected``: sets of CPUs (``None``: no cpuset), or
        texts."""
        if isinstance(expected, str) or isinstance(seen, str):
            return cls(rule, Difference(what=what, expected=str(expected), seen=str(seen)))
        return cls(rule, cpu_difference(what, expected, seen))


@dataclass(frozen=True, slots=True)
class Situation:
    """What an invariant is judged against: what was configured and applied, on which CPUs.
    ``reserved`` is ``None`` if the kubelet chose the reserved CPUs. ``tampered`` are the containers
    (pod, container) whose cpuset the scenario has changed, or whose updates it lets the runtime
    refuse. ``online`` are the machine's online CPUs now, which a running kubelet may not know
    (``None``: ``cpus``). ``lost`` are CPUs that by the scenario neither a container nor the pool
    holds. ``topology`` is what the kubelet found when it started (``None``: one whose cores have
    equal numbers of CPUs)."""

    config: KubeletConfig
    pods: Mapping[str, Pod]
    cpus: CPUSet
    reserved: CPUSet | None
    can: Collection[Capability]
    tampered: Collection[tuple[str, str]] = ()
    lost: CPUSet = _NO_CPUS
    release: AnyRelease = NEWEST
    online: CPUSet | None = None
    topology: CPUTopology | None = None

    @property
    def gives_busy_cpus(self) -> bool:
        """Whether the release may assign CPUs that are not free: it decides by the average size of
        cores whether a core is free (kubernetes/kubernetes#140498)."""
        takes_by_average = has(self.release, Behaviour.ORDERED_ALLOCATION)
        if not takes_by_average or has(self.release, Behaviour.TRUE_SIZES) or not self.topology:
            return False
        return len({core.bit_count() for core in self.topology.core_masks.values()}) > 1

    def exclusive(self, view: View) -> CPUSet:
        """The CPUs that the state file of ``view`` gives to pods as a whole, or to containers."""
        taken = CPUSet()
        of_pods = parse_pods_leniently(view.state_file, release=self.release).values()
        for cpus in (*of_pods, *(held for _, _, held in each(view.assignments))):
            taken |= cpus
        return taken

    @property
    def strict(self) -> bool:
        """Whether reserved CPUs are outside of the shared pool (strict-cpu-reservation)."""
        return is_true(self.config.policy_options.get("strict-cpu-reservation", ""))
