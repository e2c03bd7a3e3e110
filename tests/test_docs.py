"""What the documentation shows is what happens: every ``console`` block is run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.catalogue import catalogue
from conformance.kubelets import builder
from conformance.session.keywords import may_match
from tests.cli.running import Done, here, pinproof, ran
from tests.support import lacking
from tests.support.transcripts import Block, anchor, blocks, commands, matches

ROOT: Final = Path(__file__).parents[1]
FACTS: Final = ROOT / "docs" / "facts"
PAGES: Final = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tests/README.md")),
    ROOT / "tests" / "golden" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def _blocks() -> Iterator[tuple[str, Block]]:
    """Page, by its path in the repository, and each of its console blocks. A tutorial is typed as
    a whole (tests/test_tutorials.py)."""
    for page in PAGES:
        if page.parent.name != "tutorials":
            for block in blocks(page):
                if block.language == "console" and block.text.startswith("$ "):
                    yield str(page.relative_to(ROOT)), block


@pytest.mark.parametrize(("page", "block"), list(_blocks()))
def test_a_transcript_is_true(page: str, block: Block, tmp_path: Path) -> None:
    """The commands of a block run one after the other in one folder, beside the files that the
    page shows; ``...`` stands for what differs from run to run."""
    if "kubelet:1.36" in block.text:
        if not any(one.version.startswith("1.36.") for one in builder.cached()):
            lacking.skip("kubelet", f"{page}: {block.text}")
        lacking.need("sandbox")
    for one in blocks(ROOT / page):
        if one.name and one.language in ("yaml", "json"):
            (tmp_path / one.name).write_text(one.text, encoding="utf-8")
    for command in commands(block):
        done = _run(command.words, tmp_path)
        where = f"{page}:{command.line}: {command.words}"
        assert matches(command.output, done.stdout), f"{where}\n{done.stdout}{done.stderr}"


def _run(command: str, folder: Path) -> Done:
    """``pinproof``, perhaps with variables before it; a kubelet gets a process of its own."""
    words = shlex.split(command)
    program = words.index("pinproof")
    variables: dict[str, Any] = dict(word.split("=", 1) for word in words[:program])
    run = pinproof if "kubelet:1.36" in command else here
    return run(*words[program + 1 :], cwd=folder, **{"COLUMNS": "100", **variables})


def _keywords() -> list[str]:
    """What the commands of the pages' console blocks give to ``-k``."""
    shown = (one for page in PAGES for block in blocks(page) for one in commands(block))
    return [text for one in shown for text in re.findall(r" -k ('[^']+'|\S+)", one.words)]


@pytest.mark.parametrize("keyword", sorted({one.strip("'") for one in _keywords()}))
def test_a_keyword_takes_no_more_scenarios_than_it_has_words(keyword: str) -> None:
    """Or a page that counts them is wrong as soon as another scenario has the word in its id. The
    tutorials are typed late: by ``.ci/run`` alone. One adds a scenario, which is not there yet."""
    taken = list(filter(may_match(keyword), (one.id for one in catalogue())))
    assert len(taken) <= len(keyword.split(" or ")), taken


def test_there_are_transcripts() -> None:
    """Or the test above would be empty."""
    assert sum(page == "README.md" for page, _ in _blocks()) >= 3
    assert sum(page == "docs/reference/machines.md" for page, _ in _blocks()) >= 3


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {anchor(text) for text in headings}


def _dead_links(page: Path) -> Iterator[str]:
    """The relative links of a page that lead to no file, or to no heading of one."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        there = page.parent / name if name else page
        if not there.exists() or (anchor and anchor not in _anchors(there)):
            yield f"{page.relative_to(page.parents[1])}: {target}"


#: Stand-ins that write down how they are called. Only an activated environment has pip, and only
#: an installed package its commands.
_PYTHON: Final = r"""#!/bin/sh
echo "python3 $*" >> "$CALLS"
[ "$1 $2" = "-m venv" ] || exit 9
mkdir -p "$3/bin" && cp "$STUBS/pip" "$3/bin/pip"
echo "PATH='$PWD/$3/bin':\$PATH" > "$3/bin/activate"
"""
_PIP: Final = r"""#!/bin/sh
echo "pip $*" >> "$CALLS"
for name in pinproof tox pytest; do
  printf '#!/bin/sh\necho "%s $*" >> "$CALLS"\n' "$name" > "$(dirname "$0")/$name"
  chmod +x "$(dirname "$0")/$name"
done
"""
_UVX: Final = r"""#!/bin/sh
echo "uvx $*" >> "$CALLS"
"""


def test_the_readmes_blocks_can_be_pasted_one_after_the_other(tmp_path: Path) -> None:
    """In one shell, each finds the commands that it calls."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    transcripts = re.findall(r"^\$ (.*)$", text, re.MULTILINE)
    assert len(blocks) >= 5
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    for name, script in (("python3", _PYTHON), ("pip", _PIP), ("uvx", _UVX)):
        (stubs / name).write_text(script)
        (stubs / name).chmod(0o755)
    first = tmp_path / "bin"
    first.mkdir()
    for name in ("python3", "uvx"):
        (first / name).symlink_to(stubs / name)
    calls = tmp_path / "calls"
    environment = {"PATH": f"{first}:/usr/bin:/bin", "CALLS": str(calls), "STUBS": str(stubs)}
    text = "\n".join([*blocks, *transcripts])
    ran("/bin/bash", "-eu", "-c", text, cwd=tmp_path, env=environment, status=0)
    incident, *made = calls.read_text().splitlines()
    assert incident == "uvx --from .[kubelet] pinproof run -k machine/cpu-upgrade-incident"
    assert made[:3] == ["python3 -m venv .venv", made[1], "pinproof run --report out"]
    assert made[1].startswith("pip install ")
    assert [line.partition(" ")[0] for line in made[3:5]] == ["pip", "tox"]
    assert sum(line.startswith("pinproof ") for line in made) >= 8


def test_links_between_pages_lead_somewhere() -> None:
    """Relative links, that is: to a file, and to a heading where they name one."""
    assert [dead for page in PAGES for dead in _dead_links(page)] == []


def test_a_dead_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One: 1.2 `x`\n[a](page.md#one-12-x) [b](#two) [c](gone.md) [d](page.md)\n")
    assert [dead.partition(": ")[2] for dead in _dead_links(page)] == ["#two", "gone.md"]


_FOLDERS: Final = (
    "benchmarks", "conformance", "differential", "docs", "hil", "hunting", "pinproof", "reference",
    "reports", "tests", "topologies", r"\.ci",
)  # fmt: skip
_PATH: Final = re.compile(rf"`((?:{'|'.join(_FOLDERS)})/[^`\s=]*)`")
#: A reader of docs/tutorials/contributor.md writes it.
_TO_BE_WRITTEN: Final = "conformance/scenarios/freed.py"


def _lost_paths(page: Path) -> Iterator[str]:
    """The paths of this repository that a page names and that are not there: from its top, or from
    the page's folder. ``RELEASE`` and ``{cpu,node}`` stand for any text."""
    for named in _PATH.findall(page.read_text(encoding="utf-8")):
        pattern = re.sub(r"\{[^}]*\}|[A-Z]{3,}", "*", named)
        if not any(next(top.glob(pattern), None) for top in (ROOT, page.parent)):
            yield named


def test_paths_that_pages_name_are_there() -> None:
    assert [lost for page in PAGES for lost in _lost_paths(page)] == [_TO_BE_WRITTEN]


def test_a_lost_path_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`reference/gone.py`, `docs/style.md`, `tests/golden/{a,b}*`, `docs/NAME.md`")
    assert list(_lost_paths(page)) == ["reference/gone.py"]


def _sections() -> set[str]:
    """The numbers of the sections of docs/facts."""
    pages = [page.read_text(encoding="utf-8") for page in FACTS.glob("[0-9]*.md")]
    return {number for page in pages for number in re.findall(r"^##? ([0-9.]+) ", page, re.M)}


def _sources(*kinds: str) -> list[Path]:
    """The files of these kinds in the folders that cite pages."""
    folders = ("benchmarks", "conformance", "docs", "hil", "pinproof", "reference", "tests")
    every = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    return [path for path in every if path.suffix in kinds]


#: ``docs/facts 5.3``, ``docs/facts 5.1 to 5.8, 6.2 and 7.3``.
_CITED: Final = re.compile(r"docs/facts (\d+\.\d+(?:(?:, | and | to )\d+\.\d+)*)")


def test_nothing_cites_a_page_that_is_not_here() -> None:
    """The facts are cited as ``docs/facts 5.3``, and by no other name."""
    words = re.compile(
        r"\b(?:BEHAV" + r"IOURS|COVER" + r"AGE|KUBELET-IN" + r"-THE-LOOP)(?:\.md)?\b"
    )
    files = _sources(".py", ".md", ".toml")
    assert [p.name for p in files if words.search(p.read_text(encoding="utf-8"))] == []


def test_sections_of_the_facts_that_are_cited_are_there() -> None:
    """By code, tests and pages, as ``docs/facts 5.3``."""
    sections = _sections()
    assert len(sections) > 80
    cited = [
        (path.name, number)
        for path in [*_sources(".py"), *PAGES]
        for found in _CITED.findall(path.read_text(encoding="utf-8"))
        for number in re.findall(r"\d+\.\d+", found)
    ]
    assert len(cited) > 30
    assert [one for one in cited if one[1] not in sections] == []


def test_every_section_of_the_facts_is_in_their_index() -> None:
    """And links there lead to the heading of that number."""
    index = (FACTS / "README.md").read_text(encoding="utf-8")
    linked = dict(re.findall(r"\[([0-9.]+)[^\]]*\]\((\S+)\)", index))
    assert set(linked) == _sections()
    for number, target in linked.items():
        name, _, anchor = target.partition("#")
        assert name.startswith(f"{int(number.partition('.')[0]):02d}-"), number
        assert not anchor or anchor.startswith(number.replace(".", "")), number


def test_every_dependency_has_its_reason() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = (ROOT / "docs/decisions.md").read_text(encoding="utf-8").partition("## Libraries")[2]
    body = project.partition("\ndependencies = [")[2].partition("]")[0]
    names = re.findall(r'"([a-z0-9-]+)>=', body)
    assert names
    assert [name for name in names if name not in table] == []


def test_nothing_names_where_it_was_written() -> None:
    """No path of a machine, no registry's host."""
    files = ran("git", "ls-files", cwd=ROOT).stdout.split()
    if not files:
        lacking.skip("git", "or this is no checkout")
    words = re.compile(
        "/wor" + r"k/(main|shared)|proxy\.golan" + "g|pypi\\.or" + "g|sum\\.golan" + "g"
    )
    wrong = [
        name
        for name in files
        if (ROOT / name).is_file()
        and words.search((ROOT / name).read_bytes().decode("utf-8", "replace"))
    ]
    assert wrong == []
