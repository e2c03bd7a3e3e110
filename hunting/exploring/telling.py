"""What an exploration leaves in its folder: each cause with its story, history and scenario, and
how much was covered.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from conformance.results import Result
from hunting.exploring.campaign import Cause, Exploration
from hunting.exploring.history import History
from hunting.exploring.rows import Pair
from hunting.source import IMPORTS, body_of

CAUSES: Final = "causes"
HISTORY: Final = "history.json"
_STORY: Final = "story.txt"
_OTHERS: Final = "others"
COVERED: Final = "coverage.json"
#: How many of the pairs that did not meet are named.
_NAMED: Final = 200


def folder_of(cause: Cause, folder: Path) -> Path:
    return folder / CAUSES / str(cause.number)


def write_cause(cause: Cause, folder: Path, release: str) -> Path:
    """Write ``story.txt``, ``history.json`` and ``scenario.py``; return their folder."""
    own = folder_of(cause, folder)
    own.mkdir(parents=True, exist_ok=True)
    write_history(cause.history, own / HISTORY)
    (own / _STORY).write_text(f"{cause.result.explanation}\n")
    (own / "scenario.py").write_text(scenario(cause.history, cause.result, release))
    return own


def add_history(cause: Cause, folder: Path, name: str, history: History, result: Result) -> None:
    """Write down one more shrunk history of a cause, and list its steps below the story."""
    own = folder_of(cause, folder)
    path = own / _OTHERS / f"{name}.json"
    write_history(history, path)
    steps = "".join(f"    {number}. {one}\n" for number, one in enumerate(result.steps, start=1))
    with (own / _STORY).open("a") as story:
        story.write(f"\n  It differs alike in another history, {path}:\n{steps}")


def write_history(history: History, path: Path) -> None:
    """Write a history to a file that ``--replay`` takes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(history), indent=1) + b"\n")


def scenario(history: History, result: Result, release: str) -> str:
    """The source of a scenario that takes the same steps. Its promise is for a person to write:
    until then the model and the invariants judge it."""
    return f'''{IMPORTS}

@scenario(
    "explored/{result.scenario.rpartition("/")[2]}",
    "What is promised here",
    Source({result.source!r}, {result.source_url!r}),
    level=Level.EXTENDED,
    machine={history.machine!r},
)
def explored(node: LockstepNode) -> None:
    """The node differed: {_one_line(result.reason)}."""
{body_of(history.task(release).config, history.taken)}
'''


def _one_line(text: str) -> str:
    return " ".join(text.replace('"', "'").replace("\\", "/").split())


def write_coverage(exploration: Exploration, folder: Path) -> None:
    """Write what met, what did not, and which lines of the model no history reached."""
    lines = exploration.lines
    covered = {
        "histories": exploration.walked,
        "machines": {
            name: {
                "pairs met": one.met,
                "pairs possible": one.possible,
                "triples met": one.triples.met,
                "not met": [_pair(pair) for pair in one.left[:_NAMED]],
                "not possible": [_pair(pair) for pair in one.given_up[:_NAMED]],
            }
            for name, one in exploration.covering.items()
        },
        "lines of the model": {"met": lines.met, "total": lines.total, "left": lines.left()},
        "refusals": dict(exploration.refusals.most_common()),
    }
    text = msgspec.json.format(msgspec.json.encode(covered), indent=1)
    (folder / COVERED).write_bytes(text + b"\n")


def _pair(pair: Pair) -> str:
    return " with ".join(f"{name} {value}" for name, value in pair)
