"""The known defects, from docs/tables/defects.json: which releases have one, and how it shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from differential.site.asking import anchor

Defect = Mapping[str, Any]


def page(defects: Sequence[Defect]) -> str:
    """A section for each defect."""
    lines = [
        "# Defects",
        "",
        "The known defects of kubelets. [A page](../will-this-hit-me/index.md) and "
        "`pinproof advise` ([how](../how-to/advise.md)) say which of them apply to a node. [Found "
        "in the wild](../tables/found-in-the-wild.md) has those that unmodified kubelets were seen "
        "to have, step by step. The releases and machines below are those of the model.",
    ]
    for number, one in enumerate(defects):
        lines += ["", f'<a id="{anchor(number)}"></a>', "", *_section(one)]
    return "\n".join(lines) + "\n"


def _section(one: Defect) -> Iterator[str]:
    title = one["title"]
    yield f"## {title[:1].upper()}{title[1:]}"
    yield ""
    yield f"{one['story']} ([source]({one['url']}))"
    for name, text in (("What helps", one["avoid"]), ("Fixed in", ", ".join(one["mended"]))):
        if text:
            yield ""
            yield f"{name}: {text}"
    if one["scenario"]:
        yield ""
        yield f"Scenario: [{one['scenario']}](../scenarios/{one['scenario']}.md)"
    facts = one.get("facts")
    if facts:
        yield from _shown(facts)


def _shown(facts: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield f"Releases: {facts['span']}. It shows if {facts['if']}."
    yield ""
    yield f"On `{facts['machine']}`, {facts['release']}, with {facts['settings']}:"
    yield ""
    yield from (f"{number}. {step}" for number, step in enumerate(facts["steps"], 1))
    yield ""
    yield f"Promised: {facts['expected']}. Seen: {facts['seen']}."
