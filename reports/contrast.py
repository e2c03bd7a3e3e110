"""What failures share and passes lack, by contrast over :mod:`reports.traits`.

Failures that look different often have one cause: a kubelet that forgets its state file starts
where it should refuse, gives other CPUs, and leaves pods without any. What they share is a step of
their history. A trait explains a group of failures where nearly all of them have it, most passes
lack it, a result with it fails clearly more often than one without, and chance does not do that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from conformance.results import Result
from reports.traits import traits, traits_of_passes

#: The least share of a group's failures that have the trait, and the greatest share of passes.
_SHARED: Final = 0.9
_PASSING: Final = 0.45
#: How much more often a result fails that has the trait than results do in general.
_LIFT: Final = 1.5
#: Fewer failures than these have many traits in common by chance.
_LEAST: Final = 3
#: The highest chance with which the failures may share any of the traits by accident.
_CHANCE: Final = 0.05

#: How many traits that explain the same results are named.
_NAMED: Final = 3

#: Failures that look alike, by what they look like.
Groups: TypeAlias = Sequence[Sequence[Result]]


@dataclass(frozen=True, slots=True)
class Contrast:
    """A trait, with the results that have it and those that lack it: how many failed, of how
    many that were judged."""

    trait: str
    failed: int
    judged: int
    others_failed: int
    others: int

    @property
    def figures(self) -> str:
        """``49 of 118 such results failed, and none of 194 others``."""
        rest = f"{self.others_failed or 'none'} of {self.others} others"
        return f"{self.failed} of {self.judged} such results failed, and {rest}"


def explained(groups: Groups, passed: Sequence[Result]) -> list[tuple[Contrast, list[int]]]:
    """The traits that explain these groups of failures, each with the places of the groups that it
    explains; each group has at most one. The trait that explains most comes first."""
    passes = Counter(trait for found in traits_of_passes(passed) for trait in found)
    counted = [Counter(trait for result in group for trait in traits(result)) for group in groups]
    left, found = dict(enumerate(counted)), []
    while left and passed:
        best = _best(left, groups, passes, len(passed))
        if best is None:
            break
        names, places = best
        if sum(len(groups[place]) for place in places) < _LEAST:
            break
        found.append((_contrast(names, counted, passes, groups, passed), places))
        for place in places:
            del left[place]
    return found


def _best(
    left: Mapping[int, Counter[str]], groups: Groups, passes: Counter[str], passed: int
) -> tuple[list[str], list[int]] | None:
    """The trait that explains most of the failures that are left, and that few passes have, with
    the places of its groups; several traits where they explain the same equally well."""
    failures = sum(len(groups[place]) for place in left)
    base = failures / (failures + passed)
    best, most = list[str](), 0.0
    hits = list[int]()
    candidates = {trait for counts in left.values() for trait in counts}
    tried = len(candidates | passes.keys())
    for trait in sorted(candidates):
        having = passes[trait] / passed
        if having > _PASSING:
            continue
        places = [at for at, counts in left.items() if counts[trait] >= _SHARED * len(groups[at])]
        hit = sum(left[place][trait] for place in places)
        if not hit or hit / (hit + passes[trait]) < _LIFT * base:
            continue
        if tried * ((passes[trait] + 1) / (passed + 1)) ** hit > _CHANCE:
            continue
        if (weight := hit * (1 - having)) > most:
            best, most, hits = [], weight, places
        if weight == most and places == hits:
            best.append(trait)
    return (best, hits) if best else None


def _contrast(
    names: Sequence[str],
    counted: Sequence[Counter[str]],
    passes: Counter[str],
    groups: Groups,
    passed: Sequence[Result],
) -> Contrast:
    trait, failures = names[0], sum(map(len, groups))
    failed = sum(counts[trait] for counts in counted)
    judged = failed + passes[trait]
    # Traits that always come together here: any of them may be the cause.
    words = ", and ".join(names[:_NAMED])
    return Contrast(words, failed, judged, failures - failed, failures + len(passed) - judged)
