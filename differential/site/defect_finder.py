"""A page that asks for release, options, policy and machine, and lists the defects that apply.

It works in the browser, on the same measured facts as ``pinproof advise``
(docs/tables/defects.json), which vary one thing at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from differential import markdown
from differential.site.defects import Defect, name_of

#: What happens on every node. All else is in a list of its own.
_ORDINARY: Final = "other pods of one container come and go"

SCRIPT: Final = """"use strict";
const form = document.getElementById("asked");
const chosen = (name) => form.elements[name].value;
const words = (text) => text.split(" ").filter(Boolean);

function tell() {
  const options = [...form.querySelectorAll("input:checked")].map((one) => one.value);
  let shown = 0;
  for (const one of document.querySelectorAll("li[data-releases]")) {
    const { releases, policies, machines, needs } = one.dataset;
    const applies =
      words(releases).includes(chosen("release")) &&
      words(policies).includes(chosen("policy")) &&
      words(machines).includes(chosen("machine")) &&
      words(needs).every((need) => options.includes(need));
    one.hidden = !applies;
    shown += applies && one.dataset.ordinary === "yes";
  }
  const known = shown === 1 ? "1 known defect applies." : `${shown} known defects apply.`;
  document.getElementById("said").textContent = shown ? known : "No known defect applies.";
}

form.addEventListener("change", tell);
form.addEventListener("submit", (event) => event.preventDefault());
tell();
"""


def page(defects: Sequence[Defect]) -> str:
    """The page, in Markdown with HTML in it."""
    shown = [one for one in defects if one.get("facts")]
    facts = [one["facts"] for one in shown]
    ordinary = [one for one in shown if one["facts"]["if"] == _ORDINARY]
    others = [one for one in shown if one not in ordinary]
    silent = len(defects) - len(shown)
    asked = [
        '<form id="asked">',
        *_select("release", "Release", _releases(facts)),
        *_select("policy", "Topology Manager policy", facts[0]["topology_policies"]),
        *_select("machine", "A machine like", facts[0]["machines"]),
        "<fieldset><legend>Policy options and feature gates</legend>",
        *map(_box, sorted({need for one in facts for need in one["needs"]})),
        "</fieldset></form>",
    ]
    said = '<p id="said" role="status">This list needs JavaScript.</p>'
    return markdown.page(
        [
            "# Will this hit me?",
            "Choose what a node runs with. The lists name the known defects of that kubelet that "
            "the model shows with these settings. `pinproof advise` asks the model itself, with a "
            "KubeletConfiguration, any machine and your own pods "
            "([how](../how-to/advise.md)), and so knows more than this page: here each setting "
            "was varied alone.",
            asked,
            "## As pods come and go",
            [said, *_list(ordinary, "yes")],
            "## Only if something else happens",
            [*_list(others, "no")],
            f"{silent} more [defects](../defects/index.md) do not show by settings alone.",
            '<script src="script.js"></script>',
        ]
    )


def _releases(facts: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every release of these facts, the newest first."""
    found = {release for one in facts for release in one["releases"]}
    return sorted(found, key=lambda one: int(one.partition(".")[2]), reverse=True)


def _select(name: str, label: str, values: Iterable[str]) -> Iterator[str]:
    options = "".join(f"<option>{escape(one)}</option>" for one in values)
    yield f'<p><label>{label} <select name="{name}">{options}</select></label></p>'


def _box(option: str) -> str:
    name = escape(option)
    box = f'<input type="checkbox" value="{name}"> <code>{name}</code>'
    return f"<label>{box}</label>"


def _list(defects: Iterable[Defect], ordinary: str) -> Iterator[str]:
    yield "<ul>"
    for one in defects:
        facts = one["facts"]
        data = {
            "releases": facts["releases"],
            "policies": facts["topology_policies"],
            "machines": [name for name, shows in facts["machines"].items() if shows],
            "needs": facts["needs"],
        }
        named = "".join(f' data-{key}="{escape(" ".join(each))}"' for key, each in data.items())
        when = "" if ordinary == "yes" else f"If {escape(facts['if'])}: "
        title = f'<a href="../defects/{name_of(one)}/">{escape(one["title"])}</a>'
        yield f'<li data-ordinary="{ordinary}"{named}>{when}{title} (#{one["issue"]})</li>'
    yield "</ul>"
