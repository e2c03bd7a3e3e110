"""The outcomes of mutants, as text and as a page of Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from differential import markdown
from differential.markdown import table
from differential.mutants.equivalent import Equivalent, reason_of
from differential.mutants.hunt import CAUGHT, NOT_REACHED, OPEN, SURVIVED, UNTOLD
from differential.mutants.ledger import Header, Row

_STATES = (CAUGHT, SURVIVED, NOT_REACHED, UNTOLD, OPEN)


class Score:
    """Rows by their outcome. ``excused``: not caught, and on the list of equivalent ones."""

    def __init__(self, rows: Sequence[Row], known: Sequence[Equivalent]) -> None:
        self.rows = list(rows)
        self.excused: list[tuple[Row, Equivalent]] = []
        self.counted: list[Row] = []
        for row in rows:
            reason = reason_of(row.mutant, known) if row.outcome.status != CAUGHT else None
            if reason is None:
                self.counted.append(row)
            else:
                self.excused.append((row, reason))

    def of(self, *states: str) -> list[Row]:
        """The counted rows in one of these states."""
        return [row for row in self.counted if row.outcome.status in states]

    @property
    def percent(self) -> float:
        """The share of caught mutants, of all that are not excused. An open one is not caught."""
        return 100 * len(self.of(CAUGHT)) / len(self.counted) if self.counted else 0.0

    def __str__(self) -> str:
        counts = ", ".join(f"{len(self.of(state))} {state}" for state in _STATES)
        excused = Counter(reason.kind for _, reason in self.excused)
        also = "".join(f", {count} {kind}" for kind, count in sorted(excused.items()))
        bound = "at least " if self.of(OPEN) else ""
        return f"{bound}{self.percent:.1f} %: {counts}{also}"


def summary(rows: Sequence[Row], known: Sequence[Equivalent], chosen: int) -> str:
    """The score in one line, then by file and by kind."""
    score = Score(rows, known)
    lines = [f"{len(rows)} of {chosen} mutants tried. Score {score}"]
    for title, key in _KEYS:
        lines += ["", f"{title:44}  caught  tried"]
        lines += [f"{name:44}  {caught:6}  {tried:5}" for name, caught, tried in _by(score, key)]
    return "\n".join(lines)


def page(
    header: Header, rows: Sequence[Row], known: Sequence[Equivalent], chosen: int, *, how: str = ""
) -> str:
    """The results as Markdown: scores, survivors, and what caught how many. ``how`` says in a
    sentence what was chosen, and what it was tried with."""
    score = Score(rows, known)
    parts: list[str | list[str]] = [
        f"# Mutants of Kubernetes {header.release}",
        "`python -m differential.mutants` wrote this page. "
        "[mutants.md](../how-to/mutants.md) explains it.",
        f"{header.mutants} mutants were planted, {chosen} were chosen, {len(rows)} were tried, on "
        f"{' and '.join(header.machines)}. Score: {score}.",
        *([how] if how else []),
    ]
    for title, key in _KEYS:
        of_key = [(f"`{name}`", f"{caught}", f"{tried}") for name, caught, tried in _by(score, key)]
        parts.append(table((title, "caught", "tried"), of_key))
    catchers = Counter(
        row.outcome.case.scenario for row in score.of(CAUGHT) if row.outcome.case is not None
    )
    first = [(f"`{name}`", str(count)) for name, count in catchers.most_common()]
    parts.append(table(("scenario", "mutants it caught first"), first))
    for state, title in _SECTIONS:
        parts += [f"## {title}", [_line(row) for row in score.of(state)] or "None."]
    excused = [f"{_line(row)}: {reason.kind}: {reason.reason}" for row, reason in score.excused]
    return markdown.page([*parts, "## Excused", excused or "None."])


_SECTIONS = (
    (SURVIVED, "Survivors"),
    (UNTOLD, "No verdict in time"),
    (NOT_REACHED, "Reached by no scenario"),
    (OPEN, "Left by the driver, not finished on the kubelet"),
)
_KEYS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("file", lambda row: row.mutant.file),
    ("kind", lambda row: row.mutant.kind),
)


def _by(score: Score, key: Callable[[Row], str]) -> list[tuple[str, int, int]]:
    tried = Counter(map(key, score.counted))
    caught = Counter(map(key, score.of(CAUGHT)))
    return [(name, caught[name], count) for name, count in sorted(tried.items())]


def _line(row: Row) -> str:
    mutant = row.mutant
    after = mutant.after or "(left out)"
    return f"- `{mutant.id}`: `{mutant.before}` becomes `{after}`"
