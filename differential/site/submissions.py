"""The pages of what vendors have submitted: the table, and a page with the files of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from differential.markdown import page
from pinproof.submission import row_of
from reports.submission.table import table

FOLDER: Final = "submissions"
_FILES: Final = Path(__file__).parents[2] / FOLDER
_TEXT: Final = (
    "Certificates that were submitted, as [submit a result](../how-to/submitting.md) says. Each "
    "was checked when this page was made. `pinproof submission check` checks one."
)
#: The files of a submission that its page has beside the README.md.
_SERVED: Final = ("certificate.json", "result.jsonl", "submission.json")


def submission_files(folder: Path = _FILES) -> Iterator[tuple[str, str]]:
    """Path and text of the table, and of each submission's page and files. Each is checked first:
    raises :class:`reports.submission.folder.SubmissionError`."""
    found = [row_of(place, folder) for place in sorted(folder.glob("v*/*")) if place.is_dir()]
    rows = table(replace(one, place=f"{one.place}/index.md") for one in found)
    yield f"{FOLDER}/index.md", page(["# Submissions", _TEXT, rows.rstrip()])
    for one in found:
        place = folder / one.place
        there = [name for name in _SERVED if (place / name).is_file()]
        text = (place / "README.md").read_text(encoding="utf-8")
        links = ", ".join(f"[{name}]({name})" for name in there)
        yield f"{FOLDER}/{one.place}/index.md", f"{text}\nFiles: {links}.\n"
        for name in there:
            yield f"{FOLDER}/{one.place}/{name}", (place / name).read_text(encoding="utf-8")
