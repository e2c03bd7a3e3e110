"""Which scenario catches which miniature: docs/tables/kill-matrix.md.

    python -m differential.kill_matrix                  # the page, in minutes
    python -m differential.kill_matrix SCENARIO ...     # what these add to it, in seconds; and
    python -m differential.kill_matrix MINIATURE ...    # which scenarios these make fail

Every miniature runs every scenario that applies to its release, on :data:`MACHINES`, its own
machine and the scenario's own. What fails beside the model is run once more without an oracle: only
the promise in words and the invariants judge it then.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import topologies
from conformance.catalogue import catalogue, find
from conformance.judge import Case, judge
from conformance.lockstep import OracleMaker
from conformance.oracle import ModelOracle
from conformance.recording import PromisesOnly
from conformance.results import Result
from conformance.scenario import Scenario
from conformance.subjects.miniatures import MINIATURES, miniature
from conformance.subjects.miniatures.switched import default_release, switch, switches
from conformance.verdict import Verdict
from differential import markdown
from differential.kill_exceptions import NEVER_FAILED, UNCAUGHT

PAGE: Final = Path(__file__).parents[1] / "docs/tables/kill-matrix.md"
#: Small ones: of one NUMA node, and of two.
MACHINES: Final = ("1s-1n-4c-smt2", "2s-2n-16c-smt2")
#: For scenarios that need several uncore caches, and more than two NUMA nodes.
WITH_CACHES: Final = "2s-2n-32c-smt2-l3x4"
WITH_NODES: Final = "2s-4n-64c-smt2"

#: Behind a name: only the comparison with the model shows the fault.
_MODEL_ALONE: Final = "*"
_CATCHING: Final = ("miniature", "what is wrong", "release", "machine", "caught by", "others")


@dataclass(frozen=True, slots=True)
class Kill:
    """A scenario that a miniature makes fail. ``machine``: on which one. ``alone``: the promise in
    words or an invariant shows the fault without the model."""

    scenario: str
    machine: str
    alone: bool


#: What each miniature makes fail, in the order of the catalogue.
Matrix = Mapping[str, tuple[Kill, ...]]


def miniatures() -> list[str]:
    """The names of all miniatures: those written by hand, then every behaviour switched."""
    return [*MINIATURES, *(one.name for one in switches())]


def release_of(name: str) -> str:
    """The release by which a miniature is judged."""
    return MINIATURES[name].release if name in MINIATURES else default_release(switch(name))


def says(name: str) -> str:
    return MINIATURES[name].says if name in MINIATURES else switch(name).says


def judged(name: str, scenario: Scenario, machine: str, *, model: bool) -> Result:
    """The miniature in a scenario, beside the model or by the promise alone."""
    release = release_of(name)
    oracle: OracleMaker = partial(ModelOracle, release=release) if model else PromisesOnly
    case = Case(scenario, topologies.machine(machine))
    return judge(case, miniature(name), oracle=oracle, release=release).result


def kills(name: str) -> tuple[Kill, ...]:
    """The scenarios that a miniature makes fail."""
    found = (_kill(name, scenario) for scenario in catalogue())
    return tuple(one for one in found if one is not None)


def _kill(name: str, scenario: Scenario) -> Kill | None:
    by_model = None
    for machine in _machines(name, scenario):
        if not _fails(name, scenario, machine, model=True):
            continue
        if _fails(name, scenario, machine, model=False):
            return Kill(scenario.id, machine, alone=True)
        by_model = by_model or Kill(scenario.id, machine, alone=False)
    return by_model


def _machines(name: str, scenario: Scenario) -> Iterable[str]:
    if scenario.machine:
        return (scenario.machine,)
    own = (MINIATURES[name].machine,) if name in MINIATURES else ()
    caches = (WITH_CACHES,) if scenario.needs.uncore_caches > 1 else ()
    nodes = (WITH_NODES,) if scenario.needs.numa_nodes > 2 else ()
    return dict.fromkeys((*own, *MACHINES, *caches, *nodes))


def _fails(name: str, scenario: Scenario, machine: str, *, model: bool) -> bool:
    return judged(name, scenario, machine, model=model).verdict == Verdict.FAIL.value


def matrix() -> Matrix:
    """The whole matrix, by several processes."""
    names = miniatures()
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return dict(zip(names, pool.map(kills, names), strict=True))


def extended(found: Matrix, scenario: Scenario) -> dict[str, tuple[Kill, ...]]:
    """The matrix with this scenario run again, or for the first time."""
    made = dict[str, tuple[Kill, ...]]()
    for name, kept in found.items():
        others, again = [one for one in kept if one.scenario != scenario.id], _kill(name, scenario)
        made[name] = _in_order([*others, *([again] if again else [])])
    for name, one in catching(made).items():
        if not one.machine:  # a page has only the machine of the scenario that names the cause
            known = _kill(name, _required(one.scenario)) or one
            made[name] = tuple(known if each == one else each for each in made[name])
    return made


def _in_order(kills: Iterable[Kill]) -> tuple[Kill, ...]:
    order = [one.id for one in catalogue()]
    return tuple(sorted(kills, key=lambda one: order.index(one.scenario)))


def catching(found: Matrix) -> dict[str, Kill]:
    """For each miniature that is caught the scenario that names the cause: the one that it is bound
    to, or the one that the fewest miniatures make fail."""
    failing = Counter(one.scenario for made in found.values() for one in made)
    return {
        name: min(made, key=lambda one: _less_telling(name, one, failing))
        for name, made in found.items()
        if made
    }


def _less_telling(name: str, one: Kill, failing: Counter[str]) -> tuple[bool, bool, int]:
    bound = name in MINIATURES and one.scenario == MINIATURES[name].caught_by
    return not bound, not one.alone, failing[one.scenario]


# -- the page ------------------------------------------------------------------------------------

_HEAD: Final = """# The kill matrix

`python -m differential.kill_matrix` makes this page. A miniature is the model with one deliberate
fault. It shows that a scenario can fail: `pinproof run --subject miniature:NAME -k SCENARIO`. The
behaviours in which releases differ are miniatures too, switched on or off. Each miniature is judged
as the release that is named beside it. The column "others" counts the other scenarios that it makes
fail. `tests/conformance/test_kill_matrix.py` runs every line of the first table again, and the
first entry of every line of the second.

A `*` marks a fault that shows only in the comparison with the model. Without a `*` the promise in
words or an invariant shows it without the model."""


def page(found: Matrix) -> str:
    """The page. Raises :class:`ValueError` where a reason is missing, or is not needed any more."""
    best = catching(found)
    _require_reasons("miniature", set(found) - set(best), UNCAUGHT)
    failed = {one.scenario for made in found.values() for one in made}
    scenarios = [one.id for one in catalogue()]
    _require_reasons("scenario", {*scenarios} - failed, NEVER_FAILED)
    parts: list[str | list[str]] = [
        _HEAD,
        f"## What catches each miniature\n\n{len(best)} of {len(found)} are caught.",
        markdown.table(_CATCHING, _rows(found)),
        f"## What makes each scenario fail\n\n{len(failed)} of {len(scenarios)} scenarios fail.",
        markdown.table(("scenario", "miniatures"), _scenario_rows(found, best)),
        "## Miniatures that no scenario catches",
        markdown.table(("miniature", "release", "why"), _uncaught_rows(UNCAUGHT)),
        "## Scenarios that no miniature makes fail",
        markdown.table(("scenario", "why"), _reason_rows(NEVER_FAILED, scenarios)),
    ]
    return markdown.page(parts)


def _require_reasons(what: str, missing: set[str], reasons: Mapping[str, tuple[str, ...]]) -> None:
    given = {name for names in reasons.values() for name in names}
    if missing != given:
        raise ValueError(
            f"{what}s without a reason: {', '.join(sorted(missing - given)) or 'none'}; "
            f"with one that is not needed: {', '.join(sorted(given - missing)) or 'none'}"
        )


def _rows(found: Matrix) -> Iterator[tuple[str, ...]]:
    for name, one in catching(found).items():
        caught, others = _marked(one.scenario, alone=one.alone), str(len(found[name]) - 1)
        yield f"`{name}`", says(name), release_of(name), one.machine, caught, others


def _scenario_rows(found: Matrix, best: Mapping[str, Kill]) -> Iterator[tuple[str, str]]:
    for scenario in catalogue():
        made = [
            (name, one) for name, all_ in found.items() for one in all_
            if one.scenario == scenario.id
        ]  # fmt: skip
        # Those whose cause it names come first.
        made.sort(key=lambda pair: best[pair[0]].scenario != scenario.id)
        if made:
            names = ", ".join(_marked(name, alone=one.alone) for name, one in made)
            yield f"`{scenario.id}`", names


def _marked(name: str, *, alone: bool) -> str:
    return f"`{name}`{'' if alone else _MODEL_ALONE}"


def _uncaught_rows(reasons: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str, str]]:
    for name, why in _reason_rows(reasons, miniatures()):
        yield name, release_of(name.strip("`")), why


def _reason_rows(
    reasons: Mapping[str, tuple[str, ...]], order: list[str]
) -> Iterator[tuple[str, str]]:
    why = {name: reason for reason, names in reasons.items() for name in names}
    yield from ((f"`{name}`", why[name]) for name in order if name in why)


def read(text: str) -> Matrix:
    """The matrix that a page was made of. Only the kills of its first table have a machine."""
    _, first, second, *_ = re.split(r"^## .*$", text, flags=re.MULTILINE)
    made: dict[str, dict[str, Kill]] = {name: {} for name in miniatures()}
    for scenario, names in _cells(second, 2):
        for name in names.split(", "):
            kill = Kill(scenario.strip("`"), "", alone=not name.endswith(_MODEL_ALONE))
            made[name.strip("`*")][kill.scenario] = kill
    for name, _, _, machine, caught, _ in _cells(first, 6):
        kill = made[name.strip("`")][caught.strip("`*")]
        made[name.strip("`")][kill.scenario] = Kill(kill.scenario, machine, alone=kill.alone)
    return {name: _in_order(of.values()) for name, of in made.items()}


def _cells(table: str, count: int) -> Iterator[list[str]]:
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    yield from (row for row in rows if len(row) == count)


def _required(scenario: str) -> Scenario:
    found = find(scenario)
    if found is None:
        raise SystemExit(f"{scenario}: not a scenario, and not a miniature")
    return found


def main(names: Sequence[str]) -> None:
    """Run everything, or these scenarios and miniatures, and write the page."""
    for one in MINIATURES.values():
        _required(one.caught_by)
    found = dict(read(PAGE.read_text(encoding="utf-8")) if names else matrix())
    for name in names:
        if name in found:
            found[name] = kills(name)
        else:
            found = extended(found, _required(name))
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
