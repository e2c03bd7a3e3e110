"""Scheduling noise as a picture: the longest gap of each spinner, on exclusive and on shared CPUs.

Names are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final

from reports.certificate.document import Noise
from reports.text import line

_LEFT, _ROW, _WIDTH = 190, 22, 760
_COLOURS: Final = ("#0969da", "#bf5b04", "#7d4e99", "#57606a")


def picture(measured: Sequence[Noise]) -> str:
    """An SVG document: one bar for each container, on a logarithmic scale from 1 us on, labelled
    with its microseconds and with how often its thread was made to wait."""
    top = max([1000.0, *(one.gap for one in measured)])
    height = _ROW * (len(measured) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        'font-family="system-ui, sans-serif" font-size="13">',
        "<title>Longest gap of each spinner</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number, one in enumerate(measured):
        y = _ROW * number + 6
        width = max(2.0, (_WIDTH - _LEFT - 220) * math.log10(max(one.gap, 1.0)) / math.log10(top))
        label = escape(f"{line(one.name)} ({line(one.cpus)})")
        parts += [
            f'<text x="{_LEFT - 8}" y="{y + 13}" text-anchor="end" fill="#1f2328">{label}</text>',
            f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="16" '
            f'fill="{_COLOURS[number % len(_COLOURS)]}"/>',
            f'<text x="{_LEFT + width + 6:.1f}" y="{y + 13}" fill="#1f2328">'
            f"{one.gap:,.0f} us, {one.involuntary} involuntary switches</text>",
        ]
    parts.append(
        f'<text x="{_LEFT}" y="{height - 10}" fill="#59636e">longest gap, logarithmic</text></svg>'
    )
    return "".join(parts)
