"""The result of a rehearsal: the stages, the effects on pods, and broken promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from conformance.checks import each
from conformance.results import Difference
from conformance.subject import SubjectInfo
from conformance.upgrading.plan import Leg
from conformance.upgrading.pods import runs
from conformance.verdict import ExitStatus
from reference.steps import KubeletConfig
from reference.view import View
from topologies import Machine


@dataclass(frozen=True, slots=True)
class Kept:
    """The texts of a file that kubelets keep for the next one: as the kubelet of a stage ``found``
    it, after it had ``started``, and as it ``left`` it; ``None`` if there was no file."""

    found: str | None = None
    started: str | None = None
    left: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """The node when a kubelet runs with its pods, or has given up. ``leg``: ``None`` before the
    upgrade. ``files``: by name (:data:`conformance.kept_files.FILES`). ``restarted``: the
    containers (pod and container) of the stage before that were ended and started again."""

    title: str
    kubelet: SubjectInfo
    view: View
    machine: Machine
    config: KubeletConfig
    leg: Leg | None = None
    files: Mapping[str, Kept] = field(default_factory=dict)
    restarted: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """The effect on pods of a kubelet that started on another machine or with another configuration
    than the one before it, or that did not start. ``ended``: the pods that held CPUs and no longer
    run, each with the kubelet's reason (``""`` if the kubelet does not run). ``refusal``: why the
    kubelet did not start over the state file (``""`` if it did). ``recovered``: whether it started
    without that file; ``moved``: pods that then hold other CPUs."""

    kubelet: SubjectInfo
    leg: Leg
    ended: Mapping[str, str] = field(default_factory=dict)
    refusal: str = ""
    recovered: bool = False
    moved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that was broken after a step, with its ``kubelet`` and ``leg``. ``witness``: the page
    or the model that says so."""

    step: str
    kubelet: SubjectInfo
    leg: Leg
    rule: str
    witness: str
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The result of a rehearsal. ``notes``: remarks for a person. ``turns``: one for each leg if
    the machine or the configuration changes; else one for a kubelet that did not start. ``killed``:
    the file at whose rename the new kubelet was killed (``""`` if it was not). ``broken_before``:
    the rules that the old kubelet breaks without an upgrade. ``unlike_file``: differences between
    the plan's state file (expected) and the node after the old kubelet's start. ``silent``: why the
    models did not judge to the end (``""`` if they did). ``drained``: the legs on which a rule is
    broken even if every pod is deleted first (``None`` if that was not rehearsed)."""

    stages: tuple[Stage, ...]
    broken: tuple[Broken, ...]
    notes: tuple[str, ...]
    turns: tuple[Turn, ...] = ()
    killed: str = ""
    broken_before: frozenset[str] = frozenset()
    unlike_file: tuple[Difference, ...] = ()
    silent: str = ""
    drained: tuple[Leg, ...] | None = None

    @property
    def broken_legs(self) -> tuple[Leg, ...]:
        return tuple(leg for leg in Leg if any(one.leg is leg for one in self.broken))

    @property
    def harmed_legs(self) -> tuple[Leg, ...]:
        """The legs on which a promise is broken, or pods that held CPUs are ended."""
        ended = [one.leg for one in self.turns if one.ended]
        return tuple(leg for leg in Leg if leg in (*self.broken_legs, *ended))

    @property
    def unrehearsed(self) -> tuple[str, ...]:
        """The pods that did not run before the upgrade, and so were not judged."""
        first = self.stages[0].view
        return tuple(name for name in first.pods if not runs(first, name))

    @property
    def pinned(self) -> int:
        """How many containers ran on exclusive CPUs before the upgrade."""
        return sum(1 for _, _, cpus in each(self.stages[0].view.assignments) if cpus)

    @property
    def status(self) -> ExitStatus:
        """The exit status. There is no verdict if no container was pinned, since none could lose
        its CPUs, or if the node differed from the plan's state file."""
        if self.broken or any(turn.ended for turn in self.turns):
            return ExitStatus.NOT_CONFORMANT
        tells = self.pinned and not self.unlike_file
        return ExitStatus.CONFORMANT if tells else ExitStatus.COULD_NOT_TELL
