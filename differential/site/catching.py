"""What makes a scenario fail: miniatures, faults written into the kubelet's Go source by hand, and
those that a program planted there."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.aliases import present
from differential import kill_matrix
from differential.kill_exceptions import NEVER_FAILED
from differential.markdown import table
from differential.named_faults import seen
from differential.named_faults.faults import known_faults

_TABLES: Final = Path(__file__).parents[2] / "docs/tables"
#: A row of the tables of planted mutants: a scenario, and how many it caught first.
_PLANTED: Final = re.compile(r"^\| `([a-z0-9-]+/[a-z0-9-]+)` \| (\d+) \|$", re.MULTILINE)
#: Miniatures that a page has in full.
MOST: Final = 12


@dataclass(frozen=True, slots=True)
class Miniature:
    """One that makes a scenario fail. ``names_it``: the scenario is the one that names this fault;
    ``alone``: its promise or an invariant shows the fault without the model."""

    name: str
    names_it: bool
    alone: bool


@dataclass(frozen=True, slots=True)
class Catches:
    """By scenario: miniatures, named faults (name and what it does), and how many planted mutants
    of which release it was the first to catch."""

    miniatures: Mapping[str, Sequence[Miniature]]
    faults: Mapping[str, Sequence[tuple[str, str]]]
    planted: Mapping[str, Mapping[str, int]]


def known() -> Catches:
    """What the pages in docs/tables and the kept rows of named faults have."""
    matrix = kill_matrix.read(kill_matrix.PAGE.read_text(encoding="utf-8"))
    return Catches(_miniatures(matrix), _faults(), _planted())


def _miniatures(matrix: kill_matrix.Matrix) -> Mapping[str, Sequence[Miniature]]:
    best = kill_matrix.catching(matrix)
    found = defaultdict[str, list[Miniature]](list)
    for name, kills in matrix.items():
        for one in kills:
            names_it = best[name].scenario == one.scenario
            found[one.scenario].append(Miniature(name, names_it, one.alone))
    # First those that the scenario names, then those that its promise shows without the model.
    return {
        scenario: sorted(made, key=lambda one: (not one.names_it, not one.alone))
        for scenario, made in found.items()
    }


def _faults() -> Mapping[str, Sequence[tuple[str, str]]]:
    does = {one.name: one.does for one in known_faults()}
    found = defaultdict[str, list[tuple[str, str]]](list)
    for one in seen.read():
        if one.caught:
            found[one.case.scenario].append((one.fault, does[one.fault]))
    return found


def _planted() -> Mapping[str, Mapping[str, int]]:
    found = defaultdict[str, dict[str, int]](dict)
    for page in sorted(_TABLES.glob("mutants-*.md")):
        release = page.stem.removeprefix("mutants-")
        for scenario, count in _PLANTED.findall(page.read_text(encoding="utf-8")):
            found[present(scenario)][release] = int(count)
    return found


def section(scenario: str, catches: Catches) -> Iterator[str]:
    """The parts of a scenario's page."""
    yield "## What it catches"
    yield from _of_the_model(scenario, catches.miniatures.get(scenario, ()))
    faults = catches.faults.get(scenario, ())
    if faults:
        yield (
            "On a kubelet with one of these [faults in its code](../../tables/named-faults.md) \n"
            "it was seen to fail:"
        )
        rows = [(f"[`{name}`](../../tables/named-faults.md#{name})", does) for name, does in faults]
        yield "\n".join(table(("fault", "what it does"), rows))
    for release, count in catches.planted.get(scenario, {}).items():
        number = "one fault" if count == 1 else f"{count} faults"
        yield (
            f"It was the first to catch {number} that a program planted in the kubelet of "
            f"[{release}](../../tables/mutants-{release}.md)."
        )


def _of_the_model(scenario: str, made: Sequence[Miniature]) -> Iterator[str]:
    if not made:
        why = next((why for why, names in NEVER_FAILED.items() if scenario in names), "")
        yield f"No [miniature](../../tables/kill-matrix.md) makes it fail: {why}."
        return
    yield (
        "Each of these [miniatures](../../tables/kill-matrix.md), models with one fault, \n"
        "makes it fail:"
    )
    by = {True: "the promise alone", False: "the comparison with the model"}
    rows = [(f"`{one.name}`", kill_matrix.says(one.name), by[one.alone]) for one in made[:MOST]]
    yield "\n".join(table(("miniature", "what is wrong", "shown by"), rows))
    if more := [f"`{one.name}`" for one in made[MOST:]]:
        yield f"And {len(more)} more."
