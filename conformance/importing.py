"""A file of scenarios that cannot be imported."""

from __future__ import annotations

import traceback
from pathlib import Path

from conformance import scenarios


def fault_of_scenarios(error: Exception) -> str:
    """One line with file and line where ``error`` keeps a module of scenarios from being imported,
    ``""`` for any other error."""
    raised = traceback.extract_tb(error.__traceback__)
    frames = [(one.filename, one.lineno) for one in raised if one.name == "<module>"]
    if isinstance(error, SyntaxError):
        frames.append((error.filename or "", error.lineno))
    folder = Path(scenarios.__file__).parent
    found = [one for one in frames if Path(one[0]).parent == folder]
    if not found:
        return ""
    name, line = found[-1]
    said = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    return f"{name}:{line}: this file of scenarios cannot be imported: {said}"
