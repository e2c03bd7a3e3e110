"""Steps and configurations as they are written to a file, and read again.

What belongs here: the form, which finds and drawn histories share. What never does: a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

import msgspec

from reference import CPUSet
from reference.steps import KubeletConfig, Step

_STEPS: Final[Mapping[str, Any]] = {kind.__name__: kind for kind in get_args(Step)}


def written(step: Step) -> dict[str, Any]:
    """A step as it is written: its name, and its fields."""
    return {type(step).__name__: msgspec.to_builtins(step, enc_hook=str)}


def read(step: Mapping[str, Any]) -> Step:
    """A step that was :func:`written`. Raises ``msgspec.ValidationError``, ``KeyError`` or
    ``ValueError`` for anything else."""
    ((name, fields),) = step.items()
    made: Step = msgspec.convert(fields, _STEPS[name], dec_hook=_decoded, str_keys=True)
    return made


def read_config(config: Mapping[str, Any]) -> KubeletConfig:
    """A configuration as ``msgspec.to_builtins`` writes one. Raises ``msgspec.ValidationError``."""
    return msgspec.convert(config, KubeletConfig, dec_hook=_decoded, str_keys=True)


def _decoded(kind: type, text: str) -> CPUSet:
    return CPUSet.parse(text)
