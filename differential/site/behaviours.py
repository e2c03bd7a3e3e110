"""The named behaviours, everything in which two releases differ in the CPU manager: a page for
each, and a list of all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from conformance.subjects.miniatures.switched import Switch
from differential.kill_matrix import Matrix
from differential.markdown import page, table
from hunting.telling import capitalised
from reference.behaviours import Area, Behaviour, Known

FOLDER: Final = "reference/named-behaviours"


def pages(found: Matrix) -> dict[str, str]:
    """Path and text of each page. ``found`` says which scenarios tell a behaviour."""
    made = {f"{FOLDER}/index.md": _index()}
    made.update((f"{FOLDER}/{one.title}.md", page(_page(one, found))) for one in Behaviour)
    return made


def _index() -> str:
    parts: list[str | list[str]] = [
        "# Named behaviours",
        "Everything in which two Kubernetes releases differ in the CPU manager, as the model has "
        "it. `pinproof run --behaviour NAME=on` judges a kubelet as one that has the behaviour, "
        "and `pinproof identify` asks a kubelet which ones it has. A scenario shows a behaviour if "
        "it fails on the model with that behaviour switched "
        "([kill matrix](../../tables/kill-matrix.md)).",
    ]
    for area in Area:
        own = [one for one in Behaviour if one.value.area is area]
        rows = [(f"[{one.title}]({one.title}.md)", one.value.says, span(one.value)) for one in own]
        parts += [
            f"## {capitalised(area.value)}",
            table(("behaviour", "what it does", "releases"), rows),
        ]
    return page(parts)


def _page(one: Behaviour, found: Matrix) -> Iterator[str]:
    yield f"# {one.title}"
    yield f"{one.value.says} ([source]({one.value.source}))"
    yield f"Releases: {span(one.value)}."
    shown = shown_by(one, found)
    if shown:
        links = ", ".join(f"[{each}](../../scenarios/{each}.md)" for each in shown)
        yield f"Scenarios that show it: {links}."


def span(known: Known) -> str:
    """``1.22 to 1.31``."""
    if known.since is None:
        return "none; a fork may have it"
    text = f"{known.since} to {known.until}" if known.until else f"from {known.since} on"
    ported = ", ".join(known.backports)
    return f"{text}; back-ported to {ported}" if ported else text


def shown_by(one: Behaviour, found: Matrix) -> list[str]:
    """The scenarios that fail where the behaviour is switched."""
    switched = [kill for on in (False, True) for kill in found.get(Switch(one, on).name, ())]
    return list(dict.fromkeys(kill.scenario for kill in switched))
