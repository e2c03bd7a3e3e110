"""The pages of the shelf of references that are made of the code."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.verdict import ExitStatus
from differential import kill_matrix
from differential.markdown import table
from differential.site import behaviours, commands, hook, options, schemas, statuses
from pinproof.cli import COMMANDS
from pinproof.exit_statuses import MEANINGS, OWN
from reference.behaviours import Behaviour
from reference.cpumanager.policy_options import OPTIONS
from reference.releases import NEWEST, has
from reference.topologymanager.policy_options import OPTIONS as OF_TOPOLOGY

ROOT: Final = Path(__file__).parents[2]
LEAVES: Final[dict[str, Any]] = dict(leaf for name in COMMANDS for leaf in commands.leaves(name))
COMMAND_PAGES: Final = commands.pages()
SCHEMAS: Final = schemas.shipped()
SCHEMA_PAGES: Final = schemas.pages()
MATRIX: Final = kill_matrix.read(kill_matrix.PAGE.read_text(encoding="utf-8"))
BEHAVIOUR_PAGES: Final = behaviours.pages(MATRIX)


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert table(("a",), [("x|y\nz",)]) == ["| a |", "| --- |", "| x\\|y z |"]


@pytest.mark.parametrize("words", LEAVES)
def test_a_command_is_on_its_page_with_its_options(words: str) -> None:
    page = COMMAND_PAGES[f"reference/commands/{words.split()[0]}.md"]
    _, _, section = page.partition(f"# `pinproof {words}`\n")
    section = re.split(r"^#+ `pinproof", section, flags=re.MULTILINE)[0]
    named = [one for one in LEAVES[words].params if one.param_type_name == "option"]
    flags = [flag for one in named if not getattr(one, "hidden", False) for flag in one.opts]
    assert [flag for flag in flags if flag not in section] == []
    assert f"[`{words}`](" in COMMAND_PAGES["reference/commands/index.md"]


def test_a_command_has_its_help_its_arguments_and_its_example() -> None:
    page = COMMAND_PAGES["reference/commands/advise.md"]
    assert "Short stories of the node are walked" in page
    assert "\npinproof advise --release 1.36 --config kubelet.yaml" in page
    assert "* `--release RELEASE`: The release of the kubelet." in page
    assert "## `pinproof build kubelet`" in COMMAND_PAGES["reference/commands/build.md"]
    assert "* `RELEASE`: A minor" in COMMAND_PAGES["reference/commands/build.md"]


def test_documenting_a_command_leaves_it_as_it_was() -> None:
    """Its example is shown by --help, too."""
    assert commands.pages() == COMMAND_PAGES


def test_every_exit_status_is_on_its_page_with_its_commands() -> None:
    page = statuses.page()
    assert re.findall(r"^## (\d)$", page, re.MULTILINE) == [str(one.value) for one in ExitStatus]
    for words, said in OWN.items():
        link = f"[`{words}`](commands/{words.split()[0]}.md) | "
        assert [text for text in said.values() if link + text not in page] == []


def test_the_readme_has_the_same_meanings() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \| (.+) \|$", readme, re.MULTILINE)
    assert dict(rows) == {str(status.value): text for status, text in MEANINGS.items()}


def _ends_by_itself(command: Any) -> bool:
    """Whether a command raises ``typer.Exit``."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(command.callback))))
    return any(
        "typer.Exit" in ast.unparse(one) for one in ast.walk(tree) if isinstance(one, ast.Raise)
    )


def test_every_command_that_chooses_its_status_says_what_it_means() -> None:
    choosing = {words for words, command in LEAVES.items() if _ends_by_itself(command)}
    assert choosing - set(OWN) == set()
    assert len(choosing) > 8
    assert set(OWN) - set(LEAVES) == set()


@pytest.mark.parametrize("path", SCHEMAS)
def test_a_schema_is_on_its_page_with_every_field_and_a_meaning(path: str) -> None:
    name, schema = schemas.name_of(path), SCHEMAS[path]
    page = SCHEMA_PAGES[f"reference/schemas/{name}.md"]
    silent = []
    for kind, of in schemas.types(schema).items():
        section = page.partition(f"\n## {kind}\n")[2].partition("\n## ")[0]
        fields = of.get("properties", {})
        assert [one for one in fields if f"\n| `{one}` |" not in section] == []
        silent += [f"{kind}.{one}" for one in fields if not schemas.meaning(name, kind, one, of)]
    assert silent == []
    assert f"]({name}.md)" in SCHEMA_PAGES["reference/schemas/index.md"]


def test_every_written_meaning_is_of_a_field() -> None:
    known = {
        f"{schemas.name_of(path)}.{kind}": set(of.get("properties", {}))
        for path, schema in SCHEMAS.items()
        for kind, of in schemas.types(schema).items()
    }
    every = set().union(*known.values())
    written = schemas.meanings()
    assert set(written["every"]) - every == set()
    odd = {place: set(of) - known[place] for place, of in written.items() if place != "every"}
    assert {place: fields for place, fields in odd.items() if fields} == {}


def test_the_schemas_are_all_that_the_packages_have() -> None:
    """No other file of a package is called one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    named = [path for one in packages for path in (ROOT / one).rglob("*schema*.json")]
    assert {str(path.relative_to(ROOT)) for path in named} - set(SCHEMAS) == set()
    assert "conformance/schemas/result-stream-2.json" in SCHEMAS


def test_every_behaviour_has_its_page_with_its_releases_and_its_source() -> None:
    pages = BEHAVIOUR_PAGES
    for one in Behaviour:
        page = pages[f"{behaviours.FOLDER}/{one.title}.md"]
        assert one.value.says in page
        assert f"({one.value.source})" in page
        assert f"Releases: {behaviours.span(one.value)}." in page
        assert f"({one.title}.md)" in pages[f"{behaviours.FOLDER}/index.md"]
    assert len(pages) == len(Behaviour) + 1


def test_a_behaviour_names_the_scenarios_that_show_it() -> None:
    shown = behaviours.shown_by(Behaviour.HELD_CPUS_KEPT_FIRST, MATRIX)
    assert "options/full-pcpus-restart-refuses-what-runs" in shown
    page = BEHAVIOUR_PAGES[f"{behaviours.FOLDER}/held-cpus-kept-first.md"]
    assert f"[{shown[0]}](../../scenarios/{shown[0]}.md)" in page


def test_every_policy_option_is_on_its_page() -> None:
    page = options.page()
    for name, stages in [*OPTIONS.items(), *OF_TOPOLOGY.items()]:
        (row,) = re.findall(rf"^\| `{name}` \| (.*)$", page, re.MULTILINE)
        assert options.DOES[name] in row
        assert [one.title for one in stages if f"/{one.title}.md)" not in row] == []
    assert set(options.DOES) == {*OPTIONS, *OF_TOPOLOGY}


def test_an_option_is_not_known_before_the_first_release_of_its_row() -> None:
    """As the model has it."""
    assert has(NEWEST, Behaviour.CORE_SPREADING)
    assert not has("1.30", Behaviour.CORE_SPREADING)
    (row,) = re.findall(r"^\| `distribute-cpus-across-cores` .*$", options.page(), re.MULTILINE)
    assert "alpha from [1.31](" in row


def test_every_page_of_the_code_is_in_the_menu_and_on_the_first_page() -> None:
    menu, first = repr(hook.nav(ROOT / "docs")), "\n".join(hook.home(has_playground=False))
    made = (f"{behaviours.FOLDER}/index.md", "reference/commands/index.md")
    for place in (statuses.PATH, options.PATH, *made):
        assert place in menu
        assert f"({place})" in first
