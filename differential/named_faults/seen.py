"""What the planted kubelet was seen to do: ``seen.jsonl``, a line for each fault on each scenario
that must catch it, and the page made of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from conformance.accounts import broken
from conformance.catalogue import find
from differential import markdown
from differential.named_faults.faults import Fault
from differential.named_faults.trials import Tried

SEEN: Final = Path(__file__).with_name("seen.jsonl")
#: How many characters of a sentence the page has.
_MOST: Final = 400


def read(path: Path = SEEN) -> list[Tried]:
    """The lines that are kept."""
    if not path.is_file():
        return []
    return [msgspec.json.decode(line, type=Tried) for line in path.read_bytes().splitlines()]


def keep(faults: Sequence[Fault], newer: Iterable[Tried], path: Path = SEEN) -> None:
    """Replace the kept rows of the kubelet by newer ones of the same fault and scenario, in the
    order of the list. Rows that the list no longer names are dropped."""
    rows = {_key(one): one for one in read(path)}
    for one in newer:
        if one.caught:
            driver = _key(one) in rows and rows[_key(one)].driver
            rows[_key(one)] = msgspec.structs.replace(one, driver=driver)
    wanted = [(one.name, by.partition("@")[0]) for one in faults for by in one.caught_by]
    _write([rows[each] for each in wanted if each in rows], path)


def keep_driver(newer: Iterable[Tried], path: Path = SEEN) -> None:
    """Note in the kept rows whether the driver was caught, too."""
    caught = {_key(one): one.caught for one in newer}
    rows = read(path)
    _write(
        [msgspec.structs.replace(one, driver=caught.get(_key(one), one.driver)) for one in rows],
        path,
    )


def for_driver(faults: Sequence[Fault], rows: Iterable[Tried]) -> list[Fault]:
    """The faults that the driver can show, with the scenarios that fail on it alone."""
    shown = {_key(one) for one in rows if one.driver}
    kept = [
        msgspec.structs.replace(
            one,
            caught_by=tuple(
                by for by in one.caught_by if (one.name, by.partition("@")[0]) in shown
            ),
        )
        for one in faults
    ]
    return [one for one in kept if one.caught_by or one.allowed]


def _key(row: Tried) -> tuple[str, str]:
    return row.fault, row.case.scenario


def _write(rows: Iterable[Tried], path: Path) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))


def page(faults: Sequence[Fault], rows: Sequence[Tried]) -> str:
    real = [one for one in faults if not one.allowed]
    parts = [
        "# Named faults",
        "Each fault is a small change of the Go source of 1.36.4 that an author of a fork may make "
        "by accident (`differential/named_faults/faults.toml`). One kubelet has all of them, each "
        "behind a switch. The scenarios below a fault failed on that kubelet with the fault on, "
        "and passed with no fault on. The title of a scenario is its promise, and the quotation is "
        "the first part of its explanation.",
        "    python -m differential.named_faults",
        "builds that kubelet and tries every fault again. The first build takes minutes. "
        "[mutants.md](../how-to/mutants.md) is about the thousands of faults that a program makes.",
        f"{len(real)} faults, {sum(one.allowed for one in faults)} changes that are allowed.",
        "The same kubelet holds the slips of `differential/named_faults/slips.toml`. "
        "They measure what tests catch that were not tuned to them: a slip for which a scenario "
        "was written (docs/how-to/exploring.md names them) measures nothing any more.",
        "    python -m differential.named_faults.slips\n"
        "    python -m differential.named_faults.slips -- \\\n"
        "        pinproof run -x --subject 'kubelet:{kubelet}' --machine 2s-2n-8c-smt2",
        "The first command lists them. The second runs a command for each slip, and counts those "
        "that it catches: status 1 of the command says caught, 0 lives.",
        *(part for one in real for part in _section(one, rows)),
        "## Allowed",
        "These break no promise. The whole catalogue passes with them on.",
        [f"- **{one.name}**: {one.does}" for one in faults if one.allowed],
    ]
    return markdown.page(parts)


def _section(fault: Fault, rows: Iterable[Tried]) -> Iterator[str]:
    yield f"## {fault.name}"
    yield fault.does
    for row in rows:
        if row.fault == fault.name:
            scenario = find(row.case.scenario)
            yield f"`{row.case}`: {scenario.title if scenario is not None else ''}."
            yield f"> {_short(sentence(row))}"


def sentence(row: Tried) -> str:
    """What a scenario said, in one line: the promise, and what was seen."""
    rule = broken(row.rule)
    return f"{rule}: {row.seen}" if row.seen else rule


def _short(text: str) -> str:
    """The first characters of a text, on one line and with Markdown escaped."""
    shown = text if len(text) <= _MOST else f"{text[:_MOST].rsplit(' ', 1)[0]} …"
    return shown.replace("<", "&lt;").replace("*", "\\*").replace("\n", " ")
