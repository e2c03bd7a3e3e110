"""A file of scenarios that cannot be imported."""

from __future__ import annotations

import traceback
from pathlib import Path

from conformance import scenarios


def fault_of_scenarios(error: Exception) -> str:
    """One line with file and line where ``error`` keeps a module of scenarios from being imported,
    ``""`` for any other error."""
    frames = [(frame.filename, frame.lineno, frame.name) for frame in _frames(error)]
    if isinstance(error, SyntaxError):
        frames.append((error.filename or "", error.lineno, "<module>"))
    found = [one for one in frames if one[2] == "<module>" and _is_of_scenarios(one[0])]
    if not found:
        return ""
    name, line, _ = found[-1]
    said = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    return f"{name}:{line}: this file of scenarios cannot be imported: {said}"


def _frames(error: Exception) -> traceback.StackSummary:
    return traceback.extract_tb(error.__traceback__)


def _is_of_scenarios(name: str) -> bool:
    return Path(name).parent == Path(scenarios.__file__).parent
