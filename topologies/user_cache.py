"""Where this project keeps what can be had again: one folder of the user's cache."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(*names: str) -> Path:
    """``$XDG_CACHE_HOME/pinproof``, or ``~/.cache/pinproof`` where that is not set, and the folder
    below it with these names. It need not be there. As the XDG Base Directory Specification has it,
    a relative path is passed over."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return root.joinpath("pinproof", *names)
