"""The known defects, from docs/tables/defects.json: a page for each, and a list of all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from conformance.kubelets.releases import KNOWN_GOOD
from differential.markdown import page, table
from hunting.telling import capitalised
from reference.releases import Release

FOLDER: Final = "defects"

Defect = Mapping[str, Any]


def name_of(one: Defect) -> str:
    """The name of a defect's page: the words of its title."""
    return re.sub(r"[^a-z0-9]+", "-", str(one["title"]).lower()).strip("-")


def pages(defects: Sequence[Defect]) -> dict[str, str]:
    """Path and text of each page."""
    made = {f"{FOLDER}/index.md": _index(defects)}
    made.update((f"{FOLDER}/{name_of(one)}.md", page(_page(one))) for one in defects)
    return made


def _index(defects: Sequence[Defect]) -> str:
    rows = [
        (f"[{capitalised(one['title'])}]({name_of(one)}.md)", *_reach(one.get("facts")))
        for one in defects
    ]
    parts = [
        "# Defects",
        "The known defects of kubelets. [A page](../will-this-hit-me/index.md) and "
        "`pinproof advise` ([how](../how-to/advise.md)) say which of them apply to a node. [Found "
        "in the wild](../tables/found-in-the-wild.md) has those that unmodified kubelets were seen "
        "to have, step by step.",
        table(("defect", "releases", "shows if"), rows),
    ]
    return page(parts)


def _reach(facts: Mapping[str, Any] | None) -> tuple[str, str]:
    return (facts["span"], facts["if"]) if facts else ("not measured", "")


def _page(one: Defect) -> Iterator[str | list[str]]:
    yield f"# {capitalised(one['title'])}"
    yield f"{one['story']} ([source]({one['url']}))"
    for name, text in (("What helps", one["avoid"]), ("Fixed in", ", ".join(one["mended"]))):
        if text:
            yield f"{name}: {text}"
    facts = one.get("facts")
    if facts:
        yield from _shown(facts)
    if one["scenario"]:
        yield from _scenario(one["scenario"], facts)


def _shown(facts: Mapping[str, Any]) -> Iterator[str | list[str]]:
    yield f"Releases: {facts['span']}. It shows if {facts['if']}."
    yield f"On `{facts['machine']}`, the model of {facts['release']}, with {facts['settings']}:"
    yield [f"{number}. {step}" for number, step in enumerate(facts["steps"], 1)]
    yield f"Promised: {facts['expected']}. Seen: {facts['seen']}."


def _scenario(name: str, facts: Mapping[str, Any] | None) -> Iterator[str | list[str]]:
    release = facts["release"] if facts else "1.36"
    yield f"The scenario [{name}](../scenarios/{name}.md) is about it."
    if Release.parse(release).minor < min(one.minor for one in KNOWN_GOOD):
        return
    yield "On a kubelet that pinproof builds:"
    yield ["```sh", f"pinproof run --subject kubelet:{release} -k {name}", "```"]
