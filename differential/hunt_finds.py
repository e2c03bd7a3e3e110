"""The stories of what the hunt has found: docs/tables/hunt-finds.md.

    python -m differential.hunt_finds > docs/tables/hunt-finds.md

``hunt_finds.jsonl`` has the finds, one JSON object a line, each with the kubelets on which it was
shown. A find is added by appending the line that ``pinproof hunt`` wrote.
"""

from __future__ import annotations

import sys
from itertools import starmap
from pathlib import Path
from typing import Final

import msgspec

from differential.markdown import page as page_of
from differential.markdown import table
from hunting import telling
from hunting.defects import DEFECTS
from hunting.finds import Find

_FILE: Final = Path(__file__).parent / "hunt_finds.jsonl"


def finds() -> list[Find]:
    decoder = msgspec.json.Decoder(Find)
    return [decoder.decode(line) for line in _FILE.read_bytes().splitlines()]


def page() -> str:
    every = finds()
    parts: list[str | list[str]] = [
        "# What the hunt has found",
        "`pinproof hunt` ([hunting.md](../how-to/hunting.md)) found each of these broken promises "
        'on the model. The column "shown on" names the unmodified kubelets that break it too. '
        "`python -m differential.hunt_finds` writes this page, and a test replays each find on the "
        "model.",
        table(("promise", "known as", "releases", "shown on"), starmap(_row, enumerate(every, 1))),
    ]
    for number, find in enumerate(every, start=1):
        parts += [f"## Find {number}", telling.story(find).rstrip()]
    return page_of(parts)


def _row(number: int, find: Find) -> tuple[str, ...]:
    known = next((one for one in DEFECTS if one.number == find.issue), None)
    issue = f"[{known.number}]({known.url})" if known else "no known issue"
    shown = ", ".join(name for name, same in find.confirmed.items() if same) or "the model"
    return f"[{find.promise}](#find-{number})", issue, find.placed, shown


if __name__ == "__main__":
    sys.stdout.write(page())
