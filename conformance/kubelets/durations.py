"""Durations as Go writes them: ``10s``, ``1m0.5s``, ``500ms``."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_LONG: Final = {"h": Decimal(3600), "m": Decimal(60)}
#: The prefix of ``s``.
_PARTS_OF_A_SECOND: Final = {
    "": Decimal(1), "m": Decimal("1e-3"), "u": Decimal("1e-6"), "µ": Decimal("1e-6"),
    "n": Decimal("1e-9"),
}  # fmt: skip
#: No number of a kubelet's configuration has more digits.
_PART: Final = r"(\d{1,18}\.?\d{0,18}|\.\d{1,18})([nuµm]?s|[mh])"
_WHOLE: Final = re.compile(f"(?:{_PART})+", re.ASCII)


def seconds(text: str) -> Decimal | None:
    """The duration in seconds. Only ``0`` needs no unit (``time.ParseDuration``). ``None`` for any
    other text, and for a negative duration, which no setting of a kubelet takes."""
    if text == "0":
        return Decimal(0)
    if not _WHOLE.fullmatch(text):
        return None
    return sum((Decimal(n) * _unit(unit) for n, unit in re.findall(_PART, text)), Decimal(0))


def _unit(unit: str) -> Decimal:
    return _LONG.get(unit) or _PARTS_OF_A_SECOND[unit.removesuffix("s")]
