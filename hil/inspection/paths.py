"""Where a kubelet's things are, as a user says where they are not found by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class KubeletPaths:
    """``""``: find it."""

    unit: str = ""
    binary: str = ""
    config: str = ""
    root_dir: str = ""
    manifests: str = ""
    endpoint: str = ""


NOT_SAID: Final = KubeletPaths()
