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
    atlas,
    behaviours,
    catching,
    commands,
    defect_finder,
    defects,
    options,
    schemas,
    statuses,
    submissions,
)
from differential.site import shelves as shelves_of
from differential.site.machines import index, machine_files
from differential.site.scenarios import scenario_files
from pinproof.playground.build import build
from pinproof.playground.distribution import NotBuilt

_DEFECTS: Final = Path(__file__).parents[2] / "docs/tables/defects.json"
#: Pages that are made of the code, on the shelf of references: title, place, and what is there.
_OF_THE_CODE: Final = (
    ("Commands", f"{commands.FOLDER}/index.md", "Every command with its options."),
    ("Exit statuses", statuses.PATH, "What each says, of which command."),
    ("JSON Schemas", f"{schemas.FOLDER}/index.md", "Every field of the files that are written."),
    (
        "Named behaviours",
        f"{behaviours.FOLDER}/index.md",
        "Everything in which two releases differ.",
    ),
    ("Policy options", options.PATH, "How ready each is, in which release."),
)
#: Lists that are made of the recordings and of what was submitted.
_LISTS: Final = (
    ("Atlas", "atlas/index.md", "What unmodified kubelets did, by promise and release."),
    (
        "Defects",
        f"{defects.FOLDER}/index.md",
        "What kubelets are known to do wrong, and what helps.",
    ),
    ("Will this hit me?", "will-this-hit-me/index.md", "The defects that apply to a node."),
    ("Machines", "machines/index.md", "The hardware on which all that was tried."),
    ("Submissions", f"{submissions.FOLDER}/index.md", "Certificates that vendors sent in."),
)
_OF_PLAYGROUND: Final = "how-to/playground.md"
_STYLE: Final = Path(__file__).with_name("style.css")
#: A fence whose first line names a file, or says how a test runs it.
_FENCE: Final = re.compile(r"^( *```\w+) (\S+)$", re.MULTILINE)
_HOME: Final = "README.md"
_LEAD: Final = (
    "pinproof checks that a Kubernetes node pins CPUs as it promises. It judges the model of each "
    "release, unmodified kubelets on machines that you need not have, and real nodes."
)
_PREFORMATTED: Final = re.compile(r"(<pre.*?</pre>)", re.DOTALL)
_INDENTATION: Final = re.compile(r"\n\s+")
_LINK: Final = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)\s]*)\)")


def nav(docs: Path) -> list[Any]:
    """The menu: each shelf with its pages, and the lists of what is generated."""
    design = [f"{name}.md" for name in ("architecture", "decisions", "glossary", "style")]
    made = [{title: place} for title, place, _ in _LISTS]
    shelves = [{shelf.capitalize(): _on(shelf, docs)} for shelf in shelves_of.SAYS]
    return [{"Start": "README.md"}, *made, *shelves, {"Design": design}]


def _on(shelf: str, docs: Path) -> list[Any]:
    first = [] if (docs / shelf / "README.md").exists() else [f"{shelf}/index.md"]
    more = _OF_THE_CODE if shelf == "reference" else ()
    pages = shelves_of.pages_of(docs, shelf)
    return [*first, *pages, *({title: place} for title, place, _ in more)]


def generated() -> Iterator[tuple[str, str]]:
    """Path and text of every file that is made of the code and of the recordings."""
    counts = atlas.counts()
    yield "atlas/index.md", atlas.page(catalogue())
    known = json.loads(_DEFECTS.read_text(encoding="utf-8"))
    yield from defects.pages(known).items()
    yield "will-this-hit-me/index.md", defect_finder.page(known)
    yield "will-this-hit-me/script.js", defect_finder.SCRIPT
    yield from commands.pages().items()
    yield from schemas.pages().items()
    yield statuses.PATH, statuses.page()
    yield options.PATH, options.page()
    found = kill_matrix.read(kill_matrix.PAGE.read_text(encoding="utf-8"))
    yield from behaviours.pages(found).items()
    catches = catching.known()
    for scenario in catalogue():
        yield from scenario_files(scenario, atlas.row(scenario, counts), catches)
    machines = [topologies.machine(name) for name in topologies.names()]
    yield "machines/index.md", index(machines)
    for machine in machines:
        yield from machine_files(machine)
    yield from submissions.submission_files()
    yield "pinproof.css", _STYLE.read_text(encoding="utf-8")


def first_pages(docs: Path) -> Iterator[tuple[str, str]]:
    """Path and text of the first page of each shelf that has none in docs/."""
    for shelf in shelves_of.SAYS:
        if not (docs / shelf / "README.md").exists():
            made = _OF_THE_CODE if shelf == "reference" else ()
            yield f"{shelf}/index.md", shelves_of.first_page(docs, shelf, made)


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
    for path, text in [*generated(), *first_pages(Path(config["docs_dir"]))]:
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """The page without links that would lead nowhere. The first page has links to what is
    generated, and that of the playground one to the playground."""
    place = page.file.src_uri
    text = with_titles(without_links_to_the_repository(markdown, place))
    has_playground = (_playground(config) / "index.html").exists()
    if place == _HOME:
        text = text.replace("# Documentation\n", "\n".join(home(has_playground)), 1)
    if place == _OF_PLAYGROUND and has_playground:
        text += '\n<p><a href="../../playground/">Open the playground</a></p>\n'
    return text


def with_titles(markdown: str) -> str:
    """Fences as the site's Markdown has them: a file's name is the title of its block."""
    return _FENCE.sub(
        lambda found: f'{found[1]} title="{found[2]}"' if "." in found[2] else found[1], markdown
    )


def home(has_playground: bool) -> Iterator[str]:
    """The beginning of the first page: what the site has beside docs/."""
    yield "# pinproof\n"
    yield f"{_LEAD}\n"
    if has_playground:
        yield '- <a href="playground/">Playground</a>: The model in the browser, step by step.'
    yield from (f"- [{title}]({place}): {says}" for title, place, says in _LISTS + _OF_THE_CODE)
    yield "\n## Documentation\n"


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """A page without the indentation of the theme's templates: a quarter of its bytes."""
    return without_indentation(output)


def without_indentation(page: str) -> str:
    """A page whose lines have no indentation, except inside ``pre``."""
    parts = _PREFORMATTED.split(page)
    return "".join(one if one.startswith("<pre") else _INDENTATION.sub("\n", one) for one in parts)


def on_post_build(*, config: Any) -> None:
    """The site has no source maps of the theme, and no search in other languages."""
    site = Path(config["site_dir"])
    for path in [*site.rglob("*.map"), *site.glob("assets/javascripts/lunr/**/*.js")]:
        path.unlink()


def _playground(config: Any) -> Path:
    return Path(config["site_dir"]) / "playground"
