"""Goes through a page by copy and paste, in one shell:

    python3 -m tests.support.typed_pages docs/tutorials/operator.md README.md#start

It types the commands of ``console`` and ``sh`` blocks, and writes the files that blocks such as
``yaml kubelet.yaml`` show. A page is wrong, and its line is named, where

- a command of a ``console`` block writes something else to stdout than the page shows (``...``
  stands for what differs from run to run), or
- a command does not end with 0. It ends with 1 where the output shown says ``Exit status 1.``, and
  as it likes where the next command of the block is ``echo $?``.

A comment right above a block says that it is not typed, or not everywhere. What is not typed is
said on stdout:

    <!-- left out: it takes 20 minutes -->
    <!-- needs NODE: a node to log in to -->       typed where the variable NODE is set

Exit status 0: every page is true; 1: one is not; 2: no such page or section, or nothing to type.
The standard library alone: it runs where nothing is installed yet.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from tests.support.transcripts import Block, Command, blocks, commands, matches

#: Seconds for one command.
BOUND: Final = 900.0
_SAYS_STATUS: Final = re.compile(r"Exit status (\d+)\.")
_LEFT_OUT: Final = re.compile(r"left out: (.+)")
_NEEDS: Final = re.compile(r"needs ([A-Z_]+): (.+)")
_ASKS_STATUS: Final = "echo $?"


class WrongPage(Exception):
    """A page is not true; the text names the page's line."""


class Ended(Exception):
    """The shell is gone."""


class Shell:
    """A bash whose variables and folder stay from command to command. stderr is the caller's."""

    def __init__(self, folder: Path, bound: float) -> None:
        self._bound = bound
        self._status = 0
        # A session of its own: whatever it started ends with it.
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "COLUMNS": "100"},
            cwd=folder,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        with self._process:
            pass  # waits, and closes its pipes

    def type(self, command: str) -> tuple[int, str]:
        """Its exit status and its stdout. Ended: it takes too long, or ends the shell."""
        end = secrets.token_hex(16)
        assert self._process.stdin is not None
        self._process.stdin.write(
            f"(exit {self._status}); eval {shlex.quote(command)} </dev/null\n"
            f"printf '\\n{end}%s\\n' $?\n"
        )
        self._process.stdin.flush()
        written = self._until(end)
        return self._status, written

    def write(self, name: str, text: str) -> None:
        """A file, in the folder where the shell is."""
        path = shlex.quote(name)
        self.type(f'mkdir -p "$(dirname {path})"; printf %s {shlex.quote(text)} >{path}')

    def _until(self, end: str) -> str:
        """What is written until the line that begins with ``end``; the rest of it is the status."""
        assert self._process.stdout is not None
        timer = threading.Timer(self._bound, self._kill)
        timer.start()
        lines: list[str] = []
        try:
            for line in self._process.stdout:
                if line.startswith(end):
                    self._status = int(line.removeprefix(end))
                    return "".join(lines)[:-1]
                lines.append(line)
        finally:
            timer.cancel()
        raise Ended(f"the shell ended, or the command took {self._bound:.0f} s")

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _typed(page: str, block: Block) -> Iterator[tuple[Command, bool]]:
    """The commands of a block, each with whether its output is compared; a file has none."""
    if block.name:
        return
    if block.language == "sh":
        yield Command(block.line, block.text.rstrip("\n"), ""), False
    elif block.language == "console":
        found = list(commands(block))
        if not found:
            raise WrongPage(f"{page}:{block.line}: a console block without a command")
        yield from ((one, True) for one in found)


def _reason_against(block: Block) -> str | None:
    """Why a block is not typed, or None."""
    if left_out := _LEFT_OUT.fullmatch(block.mark):
        return left_out[1]
    needs = _NEEDS.fullmatch(block.mark)
    return f"{needs[2]} ({needs[1]})" if needs and needs[1] not in os.environ else None


def _type(shell: Shell, command: Command, *, asked: bool, compared: bool) -> str:
    """What is wrong, or an empty text. ``asked``: the page goes on to ask for the status."""
    try:
        status, written = shell.type(command.words)
    except Ended as error:
        return str(error)
    said = _SAYS_STATUS.findall(command.output)
    expected = int(said[-1]) if said else 0
    if not asked and status != expected:
        return f"exit status {status} instead of {expected}\n{written}"
    if compared and not matches(command.output, written):
        return f"the page shows\n{command.output}and it writes\n{written}"
    return ""


def go_through(page: Path, section: str, folder: Path, bound: float = BOUND) -> int:
    """How many commands were typed. WrongPage: the first command that is wrong."""
    count = 0
    with Shell(folder, bound) as shell:
        for block in blocks(page, section):
            if reason := _reason_against(block):
                print(f"\n!!! NOT TYPED: {page}:{block.line}: {reason}", flush=True)
                continue
            typed = list(_typed(str(page), block))
            if not typed and block.name:
                shell.write(block.name, block.text)
            for place, (command, compared) in enumerate(typed):
                asked = any(one.words == _ASKS_STATUS for one, _ in typed[place + 1 : place + 2])
                where = f"{page}:{command.line}: $ {command.words}"
                print(where, flush=True)
                if wrong := _type(shell, command, asked=asked, compared=compared):
                    raise WrongPage(f"{where}\n{wrong}")
                count += 1
    return count


def main(words: list[str]) -> int:
    """The exit status."""
    if not words:
        return _refuse("expected pages, as docs/tutorials/operator.md or README.md#start")
    for word in words:
        name, _, section = word.partition("#")
        try:
            count = go_through(Path(name), section, Path.cwd())
        except WrongPage as error:
            print(f"\n{error}", flush=True)
            return 1
        except (OSError, ValueError) as error:
            return _refuse(f"{word}: {getattr(error, 'strerror', None) or error}")
        if not count:
            return _refuse(f"{word}: nothing to type")
        print(f"\n{word}: {count} commands, all as the page has them", flush=True)
    return 0


def _refuse(text: str) -> int:
    print(f"typed_pages: {text}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    # The shell, which has a session of its own, ends with the program.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
