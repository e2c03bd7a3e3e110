"""What would be sent, and why: one entry for each command."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hil.safety import Change, WriteFile
from hil.safety.agent import describe
from topologies.errors import one_line

_LONGEST: Final = 160
#: This many lines in a row that were shown before are only counted.
_KNOWN: Final = 3
#: Characters of a manifest, which is shown on one line.
_MANIFEST: Final = 2000


@dataclass(frozen=True, slots=True)
class Command:
    """One script that would run on ``node``, with ``stdin``. ``scenario`` is ``""`` for what a run
    does before and after all of them; ``risk`` is the scenario's. ``step`` is what the command is
    for, ``changes`` what it changes through the journal, in words; ``looks`` tells that it only
    reads, and waits."""

    node: str
    scenario: str
    risk: str
    step: str
    changes: tuple[str, ...]
    script: str
    stdin: bytes = b""
    looks: bool = False


class Ledger:
    """All commands, shown one by one as they come. ``say`` takes a line for a person."""

    def __init__(self, say: Callable[[str], None] = lambda line: None) -> None:
        self.commands: list[Command] = []
        self.scenario = ""
        self.risk = ""
        self.step = ""
        self._say = say
        self._shown: set[str] = set()
        self._heading = ("", "", "")

    def add(
        self,
        node: str,
        script: str,
        *,
        stdin: bytes = b"",
        changes: Sequence[Change] = (),
        looks: bool = False,
    ) -> None:
        """A command that would be sent now."""
        command = Command(
            node,
            self.scenario,
            self.risk,
            self.step,
            tuple(map(describe, changes)),
            script,
            stdin,
            looks,
        )
        self.commands.append(command)
        self._show(command, changes)

    def note(self, text: str) -> None:
        """A remark between commands."""
        self._say(f"  ({one_line(text)})")

    def skipped(self, reason: str) -> None:
        """The scenario would not be run."""
        self._say(f"{self.scenario} [{self.risk}]: not run: {one_line(reason, limit=_LONGEST)}")

    def _show(self, command: Command, changes: Sequence[Change]) -> None:
        heading = (command.node, command.scenario, command.step)
        if heading != self._heading:
            self._heading = heading
            whose = f"{command.scenario} [{command.risk}]: " if command.scenario else ""
            self._say(f"{command.node}: {whose}{one_line(command.step, limit=_LONGEST)}")
        for change in changes:
            self._say(f"    change: {one_line(describe(change), limit=_LONGEST)}")
            if isinstance(change, WriteFile):
                self._content(change.content.decode("utf-8", "replace"))
        self._lines("    look: " if command.looks else "    $ ", command.script)
        if command.stdin and not changes:
            lines = command.stdin.decode("utf-8", "replace").splitlines()
            self._lines("      < ", "\n".join(map(_decoded, lines)))

    def _content(self, text: str) -> None:
        try:
            compact = json.dumps(json.loads(text), separators=(",", ":"))
        except (ValueError, RecursionError):
            self._lines("      | ", text)
        else:
            self._say(f"      | {one_line(compact, limit=_MANIFEST)}")

    def _lines(self, before: str, text: str) -> None:
        """Each line; long stretches that were shown before are counted."""
        known: list[str] = []
        for line in [*(one for one in text.splitlines() if one.strip()), None]:
            if line is not None and line in self._shown:
                known.append(line)
                continue
            if len(known) >= _KNOWN:
                self._say(f"{before}… {len(known)} lines that are shown above …")
            else:
                for one in known:
                    self._say(f"{before}{one_line(one, limit=_LONGEST)}")
            known = []
            if line is not None:
                self._shown.add(line)
                self._say(f"{before}{one_line(line, limit=_LONGEST)}")


def _decoded(line: str) -> str:
    """Decode a line of stdin: a word and base64."""
    name, _, rest = line.partition(" ")
    try:
        return f"{name} {base64.b64decode(rest, validate=True).decode()}".strip()
    except ValueError:
        return line
