"""The list in docs/how-to/identifying.md of what cannot be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from conformance.identifying.telling import SEARCHED, Kept, Reason
from reference.behaviours import Behaviour

PAGE: Final = Path(__file__).parents[2] / "docs/how-to/identifying.md"
_BEGIN: Final = "<!-- python -m differential.telling writes this list -->\n"
_END: Final = "<!-- the list ends here -->\n"
_WHY: Final = {
    Reason.NOT_ASKED: "Nothing in the histories depends on it: another behaviour replaces it, "
    "brings it along, or has to be there for it, or it is about memory, which no machine of "
    "theirs has.",
    Reason.ALIKE: "The release shows the same without it in every history that was tried: "
    "later behaviours bring the same, or no machine of the catalogue has what it takes.",
    Reason.NOT_MODELLED: "The model does not know what the release would do otherwise.",
    Reason.CHANCE: "What it changes can also come about by chance.",
}


def with_list(text: str, kept: Kept) -> str:
    """The page with the list of what nothing tells in any release, and of what else nothing tells
    in the newest one, by reason."""
    before, rest = text.split(_BEGIN)
    return before + _BEGIN + "\n".join(_lines(kept)) + "\n" + _END + rest.split(_END)[1]


def _lines(kept: Kept) -> list[str]:
    newest = max(SEARCHED, key=lambda one: int(one.split(".")[1]))
    nowhere = set.intersection(*({*kept.untold[release]} for release in SEARCHED))
    counts = ", ".join(
        f"{len(Behaviour) - len(kept.untold[release])} of {release}"
        for release in sorted(SEARCHED, key=lambda one: int(one.split(".")[1]))
    )
    lines = [f"Of {len(Behaviour)} behaviours histories tell {counts}.", ""]
    for title, names, release in (
        ("No history tells these in any release", nowhere, ""),
        (f"Nor these in {newest}", {*kept.untold[newest]} - nowhere, newest),
    ):
        lines += [f"{title}:", ""]
        for reason in sorted(_WHY, reverse=True):
            fitting = [
                f"`{one.title}`"
                for one in Behaviour
                if one.title in names and _reason(kept, one.title, release) is reason
            ]
            if fitting:
                lines.append(f"- {_WHY[reason]} {', '.join(fitting)}")
        lines.append("")
    return lines[:-1]


def _reason(kept: Kept, title: str, release: str) -> Reason:
    """The reason in this release; without one, the best of all releases."""
    if release:
        return kept.untold[release][title]
    return max(kept.untold[one][title] for one in SEARCHED)
