"""The page of the exit statuses: what each says, and of which command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from conformance.verdict import ExitStatus
from differential import markdown
from differential.markdown import table
from hunting.telling import capitalised
from pinproof.exit_statuses import MEANINGS, OWN

PATH: Final = "reference/exit-statuses.md"


def page() -> str:
    """A section for each status."""
    parts: list[str | list[str]] = [
        "# Exit statuses",
        "Every command ends with 0 if it did what was asked, with 2 after wrong usage, and with 3 "
        "if the set-up, the network or a node failed. The tables have what a status says beyond "
        "that. `pinproof lab ssh NAME -- COMMAND` ends with the status of that command. "
        "`python -m pytest` with the scenarios in it ends with pytest's own 4 after wrong usage "
        "([pytest](../how-to/pytest.md)).",
    ]
    for status in ExitStatus:
        parts += _section(status)
    return markdown.page(parts)


def _section(status: ExitStatus) -> Iterator[str | list[str]]:
    yield f"## {status.value}"
    yield f"{capitalised(MEANINGS[status])}."
    rows = [
        (f"[`{words}`](commands/{words.split()[0]}.md)", said[status])
        for words, said in OWN.items()
        if status in said
    ]
    if rows:
        yield table(("command", "what it says there"), rows)
