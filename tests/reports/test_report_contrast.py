"""The page can be read by those who see little or no colour: WCAG 2.1 AA, computed from its style
sheet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

CSS: Final = Path("reports/templates/report.css").read_text(encoding="utf-8")
#: What is written on what.
TEXTS: Final = (
    *((ink, back) for ink in ("text", "quiet", "link", "fail") for back in ("back", "card")),
    *(("text", f"{verdict}-back") for verdict in ("pass", "fail", "unknown")),
    *(("quiet", f"{verdict}-back") for verdict in ("pass", "fail", "unknown")),
    *((verdict, f"{verdict}-back") for verdict in ("pass", "unknown", "skip")),
    ("back", "fail"),
    ("back", "link"),
)


def colours(scheme: str) -> dict[str, str]:
    """The colours of a scheme by name; six digits each."""
    blocks = re.findall(r":root \{(.*?)\}", CSS, re.S)
    block = blocks[{"light": 0, "dark": 1, "print": 2}[scheme]]
    found = dict(re.findall(r"--([a-z-]+): #([0-9a-f]{3,6});", block))
    return {
        name: one if len(one) == 6 else "".join(c * 2 for c in one) for name, one in found.items()
    }


def luminance(colour: str) -> float:
    """WCAG's relative luminance."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_computed_as_wcag_does() -> None:
    assert contrast("000000", "ffffff") == pytest.approx(21)
    assert contrast("777777", "ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_every_text_stands_out(scheme: str) -> None:
    found = colours(scheme)
    ratios = {pair: contrast(found[pair[0]], found[pair[1]]) for pair in TEXTS}
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_broken_and_kept_differ_without_any_hue(scheme: str) -> None:
    """By how light they are; their marks differ in shape as well."""
    found = colours(scheme)
    assert contrast(found["fail"], found["pass-back"]) >= 3
    assert contrast(found["fail"], found["skip-back"]) >= 3
