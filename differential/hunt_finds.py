"""What the hunt has found, told: docs/tables/hunt-finds.md.

    python -m differential.hunt_finds > docs/tables/hunt-finds.md

``hunt_finds.jsonl`` has the finds, one JSON object a line, each with the kubelets on which it was
shown. A find is added by appending the line that ``pinproof hunt`` wrote.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import msgspec

from hunting import telling
from hunting.defects import DEFECTS
from hunting.finds import Find

_FILE: Final = Path(__file__).parent / "hunt_finds.jsonl"


def finds() -> list[Find]:
    decoder = msgspec.json.Decoder(Find)
    return [decoder.decode(line) for line in _FILE.read_bytes().splitlines()]


def page() -> str:
    every = finds()
    lines = [
        "# What the hunt has found",
        "",
        "`pinproof hunt` ([hunting.md](../how-to/hunting.md)) found each of these broken promises "
        'on the model. The column "shown on" names the unmodified kubelets that break it too. '
        "`python -m differential.hunt_finds` writes this page, and a test replays each find on the "
        "model.",
        "",
        "| promise | known as | releases | shown on |",
        "| --- | --- | --- | --- |",
    ]
    for number, find in enumerate(every, start=1):
        known = next((one for one in DEFECTS if one.number == find.issue), None)
        issue = f"[{known.number}]({known.url})" if known else "no known issue"
        shown = ", ".join(name for name, same in find.confirmed.items() if same) or "the model"
        lines.append(f"| [{find.promise}](#find-{number}) | {issue} | {find.placed} | {shown} |")
    for number, find in enumerate(every, start=1):
        lines += ["", f"## Find {number}", "", telling.story(find).rstrip()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
