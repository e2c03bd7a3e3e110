"""A plan: histories that are kept because they meet most pairs, the best first."""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TypeAlias

import msgspec

from conformance.subject import SubjectUsageError
from hunting.exploring.drawing import Drawn
from hunting.exploring.factors import BY_NAME
from hunting.exploring.history import FORMAT, History, read_file
from reference.releases import Release

_Pair: TypeAlias = frozenset[tuple[str, str]]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Histories on one machine. ``release``: the one of the model that drafted them."""

    release: str
    histories: list[History]
    format: int = FORMAT


def plan_at(path: Path) -> tuple[History, ...]:
    """The histories of the plan in a file. Raises :class:`SubjectUsageError`, in one line."""
    plan = read_file(path, Plan, _check)
    if not plan.histories:
        raise SubjectUsageError(f"{path}: the plan has no history")
    return tuple(plan.histories)


def _check(plan: Plan) -> None:
    if not Release.parse(plan.release).known:
        raise ValueError(f"the model knows no release {plan.release}")
    for number, one in enumerate(plan.histories, start=1):
        for name, value in one.row.items():
            if name not in BY_NAME or value not in BY_NAME[name].values:
                raise ValueError(f"history {number}: no factor {name} with the value {value}")
        one.task(plan.release), one.taken


def write_plan(histories: Sequence[History], release: str, path: Path) -> None:
    """Write a plan: one history a line, packed where the file is to end in ``.xz``."""
    plan = Plan(release=release, histories=list(histories))
    text = msgspec.json.encode(plan).replace(b'{"machine"', b'\n{"machine"') + b"\n"
    path.write_bytes(lzma.compress(text) if path.suffix == ".xz" else text)


def best_first(drawn: Sequence[Drawn]) -> list[History]:
    """Histories that together show every pair that ``drawn`` shows. Each one shows most of the
    pairs that are left by those before it."""
    bits: dict[_Pair, int] = {}
    pairs = {
        number: sum(1 << bits.setdefault(pair, len(bits)) for pair in _pairs(one))
        for number, one in enumerate(drawn)
    }
    left, chosen = (1 << len(bits)) - 1, []
    while left:
        best = max(pairs, key=lambda number: ((pairs[number] & left).bit_count(), -number))
        left &= ~pairs.pop(best)
        chosen.append(drawn[best].history)
    return chosen


def _pairs(one: Drawn) -> set[_Pair]:
    """The pairs that meet in the story of its row, and in what comes after it."""
    rows = ((one.row, one.shown), *one.later)
    levels = ([(name, row[name]) for name in shown] for row, shown in rows)
    return {frozenset(pair) for each in levels for pair in combinations(each, 2)}
