"""What the commands here share: parsers, lines on stderr, which names are asked for, keys,
and exit statuses."""

from __future__ import annotations

import hashlib
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from conformance.subject import SubjectError, SubjectUsageError
from conformance.verdict import ExitStatus
from topologies import MachineError


def parser_of(doc: str | None, prog: str | None = None) -> ArgumentParser:
    """A parser for the command whose module has this docstring: it shows the first paragraph."""
    return ArgumentParser(prog, description=(doc or "").split("\n\n", 1)[0])


def tell(line: object) -> None:
    """Write a line to stderr at once."""
    print(line, file=sys.stderr, flush=True)


def is_asked(name: str, patterns: Sequence[str]) -> bool:
    """Whether one of these patterns (with ``*`` and ``?``) matches the name, or there is none."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def key_of(parts: Iterable[bytes]) -> str:
    """A short digest of all these parts."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def status_of(command: str, run: Callable[[], int]) -> int:
    """What ``run`` returns, or the exit status of its error, which is written to stderr."""
    try:
        return run()
    except (SubjectUsageError, MachineError) as error:
        tell(f"{command}: {error}")
        return ExitStatus.USAGE
    except SubjectError as error:
        tell(f"{command}: {error}")
        return ExitStatus.COULD_NOT_TELL
    except KeyboardInterrupt:
        tell(f"{command}: interrupted")
        return ExitStatus.COULD_NOT_TELL
