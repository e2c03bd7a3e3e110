"""What a command catches of the slips: semantic faults that no scenario was written for.

    python -m differential.named_faults.slips
    python -m differential.named_faults.slips -- pinproof run -x --subject 'kubelet:{kubelet}'

lists them, and runs the command once for each with that slip alone on, after a run with none on,
which has to end with status 0. ``{kubelet}`` is the program that holds them all. Exit status 0 of
the command says that the slip lives, 1 that it is caught, and any other is no verdict. A line is
kept for each; a later call runs the slips without a verdict.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from conformance.subject import SubjectError
from conformance.verdict import ExitStatus
from differential.command import is_asked, parser_of, tell
from differential.mutants.witness import MUTANT
from differential.named_faults.faults import Slip, known_slips
from differential.named_faults.programs import programs
from topologies.errors import one_line

_WORDS: Final = {ExitStatus.CONFORMANT.value: "lives", ExitStatus.NOT_CONFORMANT.value: "caught"}
#: Lines of the command's output that a row keeps.
_TAIL: Final = 12


class Ran(msgspec.Struct, frozen=True):
    """A run of ``command``, as it was given, with ``slip`` on (``""``: none). ``status``: its exit
    status. ``tail``: the last lines that it wrote."""

    slip: str
    command: tuple[str, ...]
    status: int
    seconds: float
    tail: str

    @property
    def word(self) -> str:
        return _WORDS.get(self.status, "no verdict")

    @property
    def has_verdict(self) -> bool:
        return self.status in _WORDS


class Runs:
    """The rows of a file, and runs in progress, which end with the ``with`` block."""

    def __init__(self, kept: Path, command: Sequence[str], kubelet: Path) -> None:
        self._kept = kept
        self._command = tuple(command)
        self._argv = [each.replace("{kubelet}", str(kubelet)) for each in command]
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._ended = False

    def rows(self) -> Mapping[str, Ran]:
        """The newest row of each slip with this command."""
        if not self._kept.is_file():
            return {}
        rows = [
            msgspec.json.decode(line, type=Ran) for line in self._kept.read_bytes().splitlines()
        ]
        return {row.slip: row for row in rows if row.command == self._command}

    def run(self, slip: str) -> Ran:
        """Run the command with this slip on, and keep the row."""
        began = time.monotonic()
        with self._started(slip) as process:
            output, _ = process.communicate()
        last = output.decode(errors="replace").splitlines()[-_TAIL:]
        seconds = round(time.monotonic() - began, 1)
        row = Ran(slip, self._command, process.returncode, seconds, "\n".join(last))
        with self._lock:
            if not self._ended:
                with self._kept.open("ab") as file:
                    file.write(msgspec.json.encode(row) + b"\n")
        return row

    @contextmanager
    def _started(self, slip: str) -> Iterator[subprocess.Popen[bytes]]:
        with self._lock:
            if self._ended:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                self._argv,
                env={**os.environ, MUTANT: slip},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._processes.add(process)
        try:
            yield process
        finally:
            with self._lock:
                self._processes.discard(process)

    def end(self) -> None:
        """End what runs, and begin nothing more."""
        with self._lock:
            self._ended = True
            for process in self._processes:
                os.killpg(process.pid, signal.SIGTERM)


def measure(slips: Sequence[str], runs: Runs, at_once: int, tell: Callable[[Ran], None]) -> bool:
    """Run the slips without a verdict, ``at_once`` at a time; ``tell`` gets each run as it ends.
    Returns whether the command passes with no slip on: else no slip is run."""
    try:
        return _measure(slips, runs, at_once, tell)
    except BaseException:
        runs.end()
        raise


def _measure(slips: Sequence[str], runs: Runs, at_once: int, tell: Callable[[Ran], None]) -> bool:
    known = runs.rows()
    if "" not in known or known[""].status != ExitStatus.CONFORMANT:
        row = runs.run("")
        tell(row)
        if row.status != ExitStatus.CONFORMANT:
            return False
    left = [each for each in slips if each not in known or not known[each].has_verdict]
    pool = ThreadPoolExecutor(at_once)
    try:
        for done in as_completed([pool.submit(runs.run, each) for each in left]):
            tell(done.result())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return True


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, even if slips live, 2 wrong usage, 3 the program could not be built, or
    a run had no verdict, 4 no slip was chosen."""
    asked = _arguments(argv)
    chosen = [
        one
        for one in known_slips()
        if is_asked(one.name, asked.only) and asked.kind in (None, one.kind)
    ]
    if not chosen:
        tell("slips: none was chosen")
        return ExitStatus.TOO_FEW
    if not asked.command:
        for one in chosen:
            print(f"{one.name}  ({one.kind})\n    {one.does}\n    {one.shown_by}")
        return ExitStatus.CONFORMANT
    try:
        kubelet = asked.kubelet or programs(tell).kubelet(tell)
        runs = Runs(asked.kept, asked.command, kubelet)
        return _measured(chosen, runs, asked.at_once)
    except (SubjectError, OSError) as error:
        tell(f"slips: {error}")
        return ExitStatus.COULD_NOT_TELL
    except KeyboardInterrupt:
        tell("slips: interrupted")
        return ExitStatus.COULD_NOT_TELL


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__, "python -m differential.named_faults.slips")
    parser.add_argument("--only", action="append", default=[], help="names, with * and ?")
    parser.add_argument("--kind", help="slips of this kind")
    parser.add_argument(
        "--kept", type=Path, default=Path("slips.jsonl"), help="where rows are kept"
    )
    parser.add_argument("-n", dest="at_once", type=int, default=1, help="how many at a time")
    parser.add_argument("--kubelet", type=Path, help="built before, in place of the cache's")
    parser.add_argument("command", nargs="*", help="after --; {kubelet} is the program")
    return parser.parse_args(argv)


def _measured(chosen: Sequence[Slip], runs: Runs, at_once: int) -> ExitStatus:
    if not measure([one.name for one in chosen], runs, at_once, _tell_ran):
        tell("slips: the command must end with status 0 when no slip is on")
        return ExitStatus.COULD_NOT_TELL
    rows = runs.rows()
    kinds = sorted({one.kind for one in chosen})
    for kind in (*kinds, ""):
        names = [one.name for one in chosen if kind in ("", one.kind)]
        words = [rows[name].word for name in names]
        print(
            f"{kind or 'all'}: {words.count('caught')} of {len(names)} caught,"
            f" {words.count('lives')} live, {words.count('no verdict')} no verdict"
        )
    has_verdicts = all(rows[one.name].has_verdict for one in chosen)
    return ExitStatus.CONFORMANT if has_verdicts else ExitStatus.COULD_NOT_TELL


def _tell_ran(row: Ran) -> None:
    last = one_line(row.tail.rpartition("\n")[2])
    tell(f"{row.word:10} {row.slip or '(none on)'} in {row.seconds} s: {last}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
