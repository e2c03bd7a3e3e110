"""A failure as a terminal shows it: docs/pictures/failure.svg.

    python -m differential.site.recording > docs/pictures/failure.svg

The picture is what the command prints, without the times of the run. It loads no font.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from typing import Final

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

#: A subject that starts on the state file of other CPUs, in the scenario of the incident.
WORDS: Final = (
    *("run", "--subject", "miniature:trusts-its-state"),
    *("-k", "machine/cpu-upgrade-incident"),
)
_COLUMNS: Final = 100
_WITHOUT_FONTS: Final = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def picture() -> str:
    """The SVG. Raises ``RuntimeError`` where the command fails to find the fault."""
    surroundings = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(_COLUMNS)}
    command = (sys.executable, "-m", "pinproof", *WORDS)
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    if done.returncode != 1:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
    story = done.stdout.partition(" replay\n")
    command_to_replay = story[2].partition("\n")[0]
    shown = f"$ pinproof {' '.join(WORDS)}\n{story[0]}{story[1]}{command_to_replay}"
    return drawn(shown, title="pinproof")


def drawn(text: str, *, title: str) -> str:
    """``text`` with its ANSI colours as an SVG of a terminal. The same text gives the same SVG."""
    console = Console(width=_COLUMNS, record=True, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text.rstrip()))
    return console.export_svg(title=title, code_format=_WITHOUT_FONTS, unique_id="pinproof")


if __name__ == "__main__":
    print(picture().rstrip())
