"""What a user states of a node's kubelet where pinproof does not find it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class KubeletPaths:
    """``""``: find it. ``distribution`` is the kind of the node, by its name in
    :mod:`hil.distributions`."""

    unit: str = ""
    binary: str = ""
    config: str = ""
    root_dir: str = ""
    manifests: str = ""
    endpoint: str = ""
    distribution: str = ""


NOT_SAID: Final = KubeletPaths()
