"""Runs of pytest that a test starts.

What belongs here: their environment. What never does: what they run.
"""

from __future__ import annotations

import os


def environment() -> dict[str, str]:
    """The environment of this process, without the worker that pytest-xdist takes it for: a run
    that is started here is none of the outer run's workers."""
    return {name: value for name, value in os.environ.items() if "XDIST" not in name}
