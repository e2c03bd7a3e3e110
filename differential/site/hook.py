"""What MkDocs calls while it builds the site (mkdocs.yml names this file)."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

import topologies
from conformance.catalogue import catalogue
from differential import kill_matrix
from differential.site import (
    asking,
    atlas,
    behaviours,
    catching,
    commands,
    defects,
    options,
    schemas,
    statuses,
)
from differential.site.machines import index, machine_files
from differential.site.scenarios import scenario_files
from pinproof.playground.build import build
from pinproof.playground.distribution import NotBuilt

_DEFECTS: Final = Path(__file__).parents[2] / "docs/tables/defects.json"
#: Pages that are made of the code, on the shelf of references: title and place.
_OF_THE_CODE: Final = (
    ("Commands", f"{commands.FOLDER}/index.md"),
    ("Exit statuses", statuses.PATH),
    ("JSON Schemas", f"{schemas.FOLDER}/index.md"),
    ("Named behaviours", behaviours.PATH),
    ("Policy options", options.PATH),
)
_OF_PLAYGROUND: Final = "how-to/playground.md"
_SHELVES: Final = ("tutorials", "how-to", "reference", "explanation", "facts", "tables")
_PREFORMATTED: Final = re.compile(r"(<pre.*?</pre>)", re.DOTALL)
_INDENTATION: Final = re.compile(r"\n\s+")
_LINK: Final = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)\s]*)\)")


def nav(docs: Path) -> list[Any]:
    """The menu: each shelf with its pages, and the lists of what is generated."""
    shelves = {
        shelf: [f"{shelf}/{one.name}" for one in sorted((docs / shelf).glob("*.md"))]
        for shelf in _SHELVES
    }
    written: list[Any] = shelves["reference"]
    written += [{title: place} for title, place in _OF_THE_CODE]
    design = [f"{name}.md" for name in ("architecture", "decisions", "glossary", "style")]
    made = [{"Atlas": "atlas/index.md"}, {"Defects": "defects/index.md"}]
    made += [{"Will this hit me?": "will-this-hit-me/index.md"}, {"Machines": "machines/index.md"}]
    return [{"Start": "README.md"}, *made, *_named(shelves), {"Design": design}]


def _named(shelves: dict[str, list[str]]) -> Iterator[dict[str, list[str]]]:
    yield from ({shelf.capitalize(): pages} for shelf, pages in shelves.items())


def generated() -> Iterator[tuple[str, str]]:
    """Path and text of every file that is made of the code and of the recordings."""
    counts = atlas.counts()
    yield "atlas/index.md", atlas.page(catalogue())
    known = json.loads(_DEFECTS.read_text(encoding="utf-8"))
    yield "defects/index.md", defects.page(known)
    yield "will-this-hit-me/index.md", asking.page(known)
    yield "will-this-hit-me/script.js", asking.SCRIPT
    yield from commands.pages().items()
    yield from schemas.pages().items()
    yield statuses.PATH, statuses.page()
    yield options.PATH, options.page()
    found = kill_matrix.read(kill_matrix.PAGE.read_text(encoding="utf-8"))
    yield behaviours.PATH, behaviours.page(found)
    catches = catching.known()
    for scenario in catalogue():
        yield from scenario_files(scenario, atlas.row(scenario, counts), catches)
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
    """The generated files beside those of docs/, and the playground, for which npm fetches Pyodide
    once."""
    from mkdocs.structure.files import File

    try:
        build(_playground(config))
    except NotBuilt as error:
        print(f"NOT BUILT: the site has no playground: {error}", file=sys.stderr)
    for path, text in generated():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """The page without links that would lead nowhere; that of the playground leads to it."""
    text = without_links_to_the_repository(markdown, page.file.src_uri)
    if page.file.src_uri == "README.md":
        text += "\n".join(["", *made()])
    if page.file.src_uri == _OF_PLAYGROUND and (_playground(config) / "index.html").exists():
        text += '\n<p><a href="../../playground/">Open the playground</a></p>\n'
    return text


def made() -> Iterator[str]:
    """For the first page: what the site has beside docs/."""
    pages = [("Atlas", "atlas/index.md"), ("Defects", "defects/index.md")]
    pages += [("Will this hit me?", "will-this-hit-me/index.md"), ("Machines", "machines/index.md")]
    yield "## Made of the code and of recordings"
    yield ""
    yield from (f"- [{title}]({place})" for title, place in [*pages, *_OF_THE_CODE])


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """A page without the indentation of the theme's templates: a quarter of its bytes."""
    return without_indentation(output)


def without_indentation(page: str) -> str:
    """A page whose lines begin with text; that of ``pre`` stays."""
    parts = _PREFORMATTED.split(page)
    return "".join(one if one.startswith("<pre") else _INDENTATION.sub("\n", one) for one in parts)


def on_post_build(*, config: Any) -> None:
    """The theme's maps of its own source are not served, nor what searches in other languages."""
    site = Path(config["site_dir"])
    for path in [*site.rglob("*.map"), *site.glob("assets/javascripts/lunr/**/*.js")]:
        path.unlink()


def _playground(config: Any) -> Path:
    return Path(config["site_dir"]) / "playground"
