"""A row: a value of each factor, of which a history is made."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

#: A value of each factor, by the factor's name.
Row: TypeAlias = Mapping[str, str]
#: A factor, and a value of it.
Level: TypeAlias = tuple[str, str]
Pair: TypeAlias = tuple[Level, Level]


class Part(Enum):
    """Which part of a history shows a factor's value."""

    SETTINGS = "settings"  # shown by the first start
    NODE = "node"  # what was on the node before the pod
    POD = "pod"  # shown once the pod is applied
    EVENT = "event"  # shown once its steps are taken
