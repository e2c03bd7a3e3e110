"""Every upgrade between some releases, rehearsed: the effect of each on running pods.

A release that takes over from itself is a plain restart. It shows which promises a kubelet breaks
without an upgrade; these do not count against an upgrade.

What belongs here: the pairs and settings, and the word for a rehearsal's result. What never does:
rehearsals (:mod:`conformance.upgrading`), and how the table is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from enum import Enum
from itertools import permutations
from typing import Final, TypeAlias

import msgspec

from conformance.discovered import first_core, topology_of
from conformance.pods import exclusive, guaranteed, guaranteed_of, later_pods, pooled
from conformance.promises.histories import GOES_ON, KEEPS_CPUS, STARTS_AGAIN
from conformance.results import Difference
from conformance.subject import Subject, SubjectError, WaitsMost
from conformance.upgrading import Broken, Leg, Plan, rehearse
from reference import CPUTopology
from reference.behaviours import Behaviour
from reference.cpumanager.policy_options import FULL_PCPUS
from reference.kubelet.configuration import reserving
from reference.releases import has, minor_of
from reference.steps import Kind, KubeletConfig
from topologies import Machine

#: The machine of rehearsals by default: eight cores, so that every kind of pod fits.
MACHINE: Final = "2s-2n-8c-smt2"
#: How many pairs are rehearsed at a time, since a kubelet mostly waits.
AT_A_TIME: Final = 3


class Word(Enum):
    """The effect of an upgrade on running pods, the worst first."""

    REFUSES = "refuses"  # the kubelet does not start over the files that it finds
    STOPS = "stops"  # running pods are ended
    RESTARTS = "restarts"  # containers are ended, and started again
    MOVES = "moves"  # containers hold other CPUs
    BREAKS = "breaks"  # another promise is broken, or the node differs from the model
    NO_VERDICT = "no verdict"
    KEEPS = "keeps"


#: Two releases, the setting, and the digests of both binaries.
Key: TypeAlias = tuple[str, str, str, tuple[str, str]]


class Cell(msgspec.Struct, frozen=True):
    """A pair of releases under a setting. ``kind``: ``kubelets`` or ``models``; ``versions``: those
    that they report, and ``digests`` of the binaries. ``words``: the word for each leg;
    ``reasons``: by leg, what was seen if the word is not ``keeps``. ``own``: the promises that the
    old kubelet breaks without an upgrade. ``silent``: why the models did not judge to the end
    (``""`` if they did)."""

    old: str
    new: str
    setting: str
    kind: str
    versions: tuple[str, str]
    digests: tuple[str, str]
    words: Mapping[str, str]
    reasons: Mapping[str, tuple[str, ...]]
    own: tuple[str, ...] = ()
    silent: str = ""

    @property
    def key(self) -> Key:
        """The releases, the setting and the binaries."""
        return self.old, self.new, self.setting, self.digests


class Setting(msgspec.Struct, frozen=True):
    """A configuration with pods. ``since``: the first minor that knows it."""

    name: str
    since: int
    plan: Callable[[Machine, str], Plan]


def _plain(machine: Machine, release: str) -> Plan:
    """Pods with an init container and, if the release keeps CPUs for it, with a sidecar, beside a
    gap."""
    topology = topology_of(machine, release=release)
    core = topology.cpus_per_core
    init = exclusive("init", core, kind=Kind.INIT)
    pods = [
        guaranteed("gone", core),
        guaranteed("pod1", core),
        guaranteed("pod2", "0.5"),
        guaranteed_of("pod3", [init, exclusive("c", core)]),
    ]
    if has(release, Behaviour.SIDECARS_KEEP_CPUS):
        sidecar = exclusive("side", 1, kind=Kind.SIDECAR)
        pods.append(guaranteed_of("pod4", [sidecar, exclusive("c", 1)]))
    return Plan(machine, _config(topology, release), pods, later_pods(core), ("gone",))


def _whole_cores(machine: Machine, release: str) -> Plan:
    """A node under full-pcpus-only that the first of the later pods fills."""
    topology = topology_of(machine, release=release)
    core = topology.cpus_per_core
    config = replace(
        _config(topology, release),
        policy_options={FULL_PCPUS: "true"},
        topology_manager_policy="best-effort",
    )
    left = len(topology.cpus) - len(first_core(topology)) - 2 * core
    pods = [guaranteed("pod1", core), guaranteed("pod2", left)]
    return Plan(machine, config, pods, later_pods(core))


def _pod_level(machine: Machine, release: str) -> Plan:
    """A pod with CPUs as a whole beside an ordinary one (kubernetes/kubernetes#137751)."""
    topology = topology_of(machine, release=release)
    core = topology.cpus_per_core
    config = replace(
        _config(topology, release),
        topology_manager_policy="best-effort",
        topology_manager_scope="pod",
        feature_gates={"PodLevelResourceManagers": True},
    )
    pods = [guaranteed("gone", core), guaranteed("pod1", core), pooled("pod2", 2 * core)]
    return Plan(machine, config, pods, later_pods(core), ("gone",))


def _config(topology: CPUTopology, release: str) -> KubeletConfig:
    return reserving(first_core(topology), release=release)


#: Policy options are on by default since 1.23; 1.36 has the gate of the pod-level managers.
SETTINGS: Final = (
    Setting("plain", 0, _plain),
    Setting("full-pcpus-only", 23, _whole_cores),
    Setting("pod-level managers", 36, _pod_level),
)


#: A release, the one that takes over from it, and the setting.
Pair: TypeAlias = tuple[str, str, Setting]
Subjects: TypeAlias = Callable[[str, str], tuple[Subject, Subject]]


def pairs(releases: Sequence[str]) -> list[Pair]:
    """Each ordered pair of releases under each setting that both have; first each release with
    itself."""
    every = [*((one, one) for one in releases), *permutations(releases, 2)]
    return [
        (old, new, setting)
        for setting in SETTINGS
        for old, new in every
        if min(minor_of(old), minor_of(new)) >= setting.since
    ]


def cells(
    wanted: Sequence[Pair],
    subjects: Subjects,
    machine: Machine,
    *,
    known: Collection[Cell] = (),
    at_a_time: int = AT_A_TIME,
) -> Iterator[Cell]:
    """The cell of each pair, in order. ``subjects`` opens those of two releases. Cells that are
    ``known`` are not rehearsed again."""
    kept = {one.key: one for one in known}
    own: dict[tuple[str, str], frozenset[str]] = {}
    both = {pair[:2]: subjects(*pair[:2]) for pair in wanted}
    threads = ThreadPoolExecutor(at_a_time, "upgrade-matrix")
    begun: list[Future[Cell]] = []
    try:
        for alike in (True, False):
            begun = [
                threads.submit(_cell, pair, both[pair[:2]], machine, own, kept)
                for pair in wanted
                if (pair[0] == pair[1]) is alike
            ]
            for each in begun:
                cell = each.result()
                if alike:
                    own[cell.old, cell.setting] = frozenset(cell.own)
                yield cell
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        if not all(one.done() for one in begun):
            _interrupt({id(one): one for pair in both.values() for one in pair}.values())
        threads.shutdown()


def _interrupt(subjects: Iterable[Subject]) -> None:
    """End running rehearsals at once."""
    for one in subjects:
        if isinstance(one, WaitsMost):
            one.interrupt()


def _cell(
    pair: Pair,
    subjects: tuple[Subject, Subject],
    machine: Machine,
    own: Mapping[tuple[str, str], frozenset[str]],
    kept: Mapping[Key, Cell],
) -> Cell:
    """The cell of one pair. If it cannot be rehearsed, no leg has a verdict."""
    old, new, setting = pair
    infos = [one.info for one in subjects]
    cell = Cell(
        old,
        new,
        setting.name,
        "kubelets" if all(one.digest for one in infos) else "models",
        (infos[0].version or infos[0].release, infos[1].version or infos[1].release),
        (infos[0].digest, infos[1].digest),
        dict.fromkeys(map(str, Leg), Word.NO_VERDICT.value),
        {},
    )
    if cell.key in kept:
        return kept[cell.key]
    try:
        rehearsed = rehearse(*subjects, setting.plan(machine, min(old, new, key=minor_of)))
    except SubjectError as error:
        return msgspec.structs.replace(cell, reasons=dict.fromkeys(map(str, Leg), (str(error),)))
    new_own = own.get((new, setting.name), rehearsed.broken_before)
    of_legs = {
        leg: [
            one
            for one in rehearsed.broken
            if one.leg is leg
            and one.rule not in (rehearsed.broken_before if leg is Leg.BACK else new_own)
        ]
        for leg in Leg
    }
    return msgspec.structs.replace(
        cell,
        words={str(leg): _word(broken).value for leg, broken in of_legs.items()},
        reasons={str(leg): tuple(_reasons(broken)) for leg, broken in of_legs.items() if broken},
        own=tuple(sorted(rehearsed.broken_before)),
        silent=rehearsed.silent,
    )


def _word(broken: Sequence[Broken]) -> Word:
    """The worst word of these broken promises."""
    said = set(map(word_of, broken))
    return next((word for word in Word if word in said), Word.KEEPS)


def word_of(broken: Broken) -> Word:
    """The word for one broken promise."""
    if broken.rule == STARTS_AGAIN:
        return Word.REFUSES
    if broken.rule == GOES_ON:
        ended = any(one.what.startswith("pod ") for one in broken.differences)
        return Word.STOPS if ended else Word.RESTARTS
    return Word.MOVES if broken.rule == KEEPS_CPUS else Word.BREAKS


def _reasons(broken: Sequence[Broken]) -> Iterator[str]:
    """What was seen instead of what was promised, each text once."""
    seen = (_reason(one, each) for one in broken for each in one.differences)
    yield from dict.fromkeys(seen)


def _reason(broken: Broken, difference: Difference) -> str:
    word, seen = word_of(broken), difference.seen
    if word is Word.REFUSES:
        return seen
    what = f"{difference.what}: {seen}"
    return f"{broken.rule}: {what}" if word is Word.BREAKS else what
