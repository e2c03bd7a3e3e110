"""The project's folder in the user's cache, for what can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(*names: str) -> Path:
    """``$XDG_CACHE_HOME/pinproof``, or ``~/.cache/pinproof`` where that is not set, and the folder
    below it with these names. It may not exist. A relative path is ignored, as the XDG Base
    Directory Specification says."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return root.joinpath("pinproof", *names)
