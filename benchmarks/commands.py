"""How long whole commands take: what a user waits for.

    python -m benchmarks.commands [--rounds 3] [--all]

Each command runs in a process of its own, several times, the commands taking turns; the best wall
time and the best processor time (of all its processes) count. Beside them stands the start of a
bare interpreter, and each time as a multiple of it, which varies less from host to host.
``--all`` adds the reference on the whole catalogue: by itself, and in one process.

Exit status 1 where a command's best wall time is over its budget. Needs an idle machine to mean
anything.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from typing import Final, NamedTuple

PINPROOF: Final = (sys.executable, "-m", "pinproof")


class Command(NamedTuple):
    """A command, and the most seconds that it may take; ``completed`` is a command line whose last
    word a shell completes, instead of words to run."""

    title: str
    words: tuple[str, ...]
    budget: float | None
    completed: str = ""


BARE: Final = Command("a bare interpreter", (sys.executable, "-c", "pass"), None)
QUICK: Final = (
    Command("pinproof --help", (*PINPROOF, "--help"), 0.3),
    Command("Tab after `pinproof re`", (), 0.3, "pinproof re"),
    Command("Tab after `run --machine 2s`", (), 0.3, "pinproof run --machine 2s"),
    Command("Tab after `draw 2s`", (), 0.3, "pinproof draw 2s"),
    Command("Tab after `explain pool/`", (), 0.3, "pinproof explain pool/"),
    Command("run on one machine", (*PINPROOF, "run", "--machine", "2s-4n-64c-smt2"), 1.5),
)
WHOLE: Final = (
    Command("run, whole catalogue", (*PINPROOF, "run"), 20.0),
    Command("run, whole catalogue, one process", (*PINPROOF, "run", "-n", "0"), None),
)
#: As the console script does it.
SCRIPT: Final = "from pinproof.cli import app; app(prog_name='pinproof')"


def timed(command: Command) -> tuple[float, float]:
    """Wall and processor seconds of one run. Raises ``RuntimeError`` where it fails."""
    words, environment = command.words, dict(os.environ)
    if command.completed:
        words = (sys.executable, "-c", SCRIPT)
        environment |= {
            "_PINPROOF_COMPLETE": "complete_bash",
            "COMP_WORDS": command.completed,
            "COMP_CWORD": str(command.completed.count(" ")),
        }
    before, started = os.times(), time.perf_counter()
    done = subprocess.run(words, env=environment, capture_output=True, check=False)
    wall, after = time.perf_counter() - started, os.times()
    if done.returncode:
        raise RuntimeError(f"{command.title}: exit status {done.returncode}: {done.stderr!r}")
    used = after.children_user + after.children_system
    return wall, used - before.children_user - before.children_system


def main() -> int:
    """Print a line for each command; 1 where one is over its budget."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--all", action="store_true")
    asked = parser.parse_args()
    commands = (BARE, *QUICK, *(WHOLE if asked.all else ()))
    times: dict[Command, list[tuple[float, float]]] = {command: [] for command in commands}
    for command in commands:
        timed(command)  # compiles what is imported for the first time
    for _ in range(asked.rounds):
        for command in commands:
            times[command].append(timed(command))
    bare = min(wall for wall, _ in times[BARE])
    over = False
    for command in commands:
        wall, used = (min(column) for column in zip(*times[command], strict=True))
        late = command.budget is not None and wall > command.budget
        over |= late
        budget = f", budget {command.budget:g} s" if command.budget is not None else ""
        print(
            f"{command.title}: {wall:.2f} s ({wall / bare:.0f} bare starts), processor "
            f"{used:.2f} s{budget}{': OVER' if late else ''}",
            flush=True,
        )
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
