"""What came of a rehearsal: the stages, what became of pods, and what was broken."""

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
    """The texts of a file that kubelets keep for one another: as it was ``found`` by the kubelet of
    a stage, once that had ``started``, and as it was ``left``; ``None`` where it was not there."""

    found: str | None = None
    started: str | None = None
    left: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """The node at a moment that a user would look at it: a kubelet runs, and was given its pods, or
    it gave up. ``leg``: ``None`` before the upgrade. ``files``: by name
    (:data:`conformance.kept_files.FILES`). ``restarted``: the containers (pod and container) of the
    stage before that were ended and started again."""

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
    """What became of the pods where a kubelet started on another machine, or with another
    configuration, than the one before it, or where it did not start. ``ended``: the pods that held
    CPUs and do not run any more, each with the kubelet's reason (``""``: the kubelet does not run).
    ``refusal``: why the kubelet did not start over the state file (``""``: it did); ``recovered``:
    whether it started once that file was removed, and ``moved``: pods that hold other CPUs then."""

    kubelet: SubjectInfo
    leg: Leg
    ended: Mapping[str, str] = field(default_factory=dict)
    refusal: str = ""
    recovered: bool = False
    moved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """What was broken after a step, with which ``kubelet``, on which ``leg``. ``witness``: who says
    so, a page or a model."""

    step: str
    kubelet: SubjectInfo
    leg: Leg
    rule: str
    witness: str
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What came of a rehearsal. ``notes``: what a person should know of it. ``turns``: one for each
    leg where the machine or the configuration changes; else one where a kubelet did not start.
    ``killed``: the file at whose rename the new kubelet was killed (``""``: it was not).
    ``broken_before``: the rules that the old kubelet breaks by itself. ``unlike_file``: in what the
    node differs from the plan's state file, which is expected, once the old kubelet has started.
    ``silent``: why the models did not judge to the end (``""``: they did). ``drained``: on which
    legs something is broken although every pod is deleted before a kubelet goes (``None``: that was
    not rehearsed)."""

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
        """On which legs a promise is broken, or pods that held CPUs would be ended."""
        ended = [one.leg for one in self.turns if one.ended]
        return tuple(leg for leg in Leg if leg in (*self.broken_legs, *ended))

    @property
    def unrehearsed(self) -> tuple[str, ...]:
        """The pods that did not run before the upgrade, of which nothing can be said."""
        first = self.stages[0].view
        return tuple(name for name in first.pods if not runs(first, name))

    @property
    def pinned(self) -> int:
        """How many containers ran on exclusive CPUs before the upgrade."""
        return sum(1 for _, _, cpus in each(self.stages[0].view.assignments) if cpus)

    @property
    def status(self) -> ExitStatus:
        """Where no container was pinned, none could lose its CPUs; and what is kept of another node
        than the state file's says nothing of that."""
        if self.broken or any(turn.ended for turn in self.turns):
            return ExitStatus.NOT_CONFORMANT
        tells = self.pinned and not self.unlike_file
        return ExitStatus.CONFORMANT if tells else ExitStatus.COULD_NOT_TELL
