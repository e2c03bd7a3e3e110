"""What MkDocs calls while it builds the site (mkdocs.yml names this file)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

import topologies
from conformance.catalogue import catalogue
from differential.site import atlas, defects
from differential.site.machines import index, machine_files
from differential.site.scenarios import scenario_files

_DEFECTS: Final = Path(__file__).parents[2] / "docs/tables/defects.json"
_SHELVES: Final = ("tutorials", "how-to", "reference", "explanation", "facts", "tables")
_LINK: Final = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)\s]*)\)")


def nav(docs: Path) -> list[Any]:
    """The menu: each shelf with its pages, and the lists of what is generated."""
    shelves = [
        {shelf.capitalize(): [f"{shelf}/{one.name}" for one in sorted((docs / shelf).glob("*.md"))]}
        for shelf in _SHELVES
    ]
    design = [f"{name}.md" for name in ("architecture", "decisions", "glossary", "style")]
    made = [{"Atlas": "atlas/index.md"}, {"Defects": "defects/index.md"}]
    made += [{"Machines": "machines/index.md"}]
    return [{"Start": "README.md"}, *made, *shelves, {"Design": design}]


def generated() -> Iterator[tuple[str, str]]:
    """Path and text of every file that is made of the code and of the recordings."""
    counts = atlas.counts()
    yield "atlas/index.md", atlas.page(catalogue())
    yield "defects/index.md", defects.page(json.loads(_DEFECTS.read_text(encoding="utf-8")))
    for scenario in catalogue():
        yield from scenario_files(scenario, atlas.row(scenario, counts))
    names = topologies.names()
    yield "machines/index.md", index(names)
    for name in names:
        yield from machine_files(topologies.machine(name))


def without_links_to_the_repository(text: str, page: str) -> str:
    """A page's text. A link that leaves docs/ leads to a file of the repository, which the site
    does not have: its words stay."""

    def mend(found: re.Match[str]) -> str:
        above = found[2].count("../")
        return found[1] if above > len(PurePosixPath(page).parent.parts) else found[0]

    return _LINK.sub(mend, text)


def on_config(config: Any) -> Any:
    """The menu is made of the folders."""
    config["nav"] = nav(Path(config["docs_dir"]))
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """The generated files beside those of docs/."""
    from mkdocs.structure.files import File

    for path, text in generated():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """The page without links that would lead nowhere."""
    return without_links_to_the_repository(markdown, page.file.src_uri)
