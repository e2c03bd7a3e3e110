"""Files that forges, editors and readers look for: valid, and true of this repository."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.installing.built import ROOT, loaded, published

_FORMS: Final = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_the_workflow_is_as_the_published_schema_says() -> None:
    validator = published("github-workflows")
    workflow = loaded(ROOT / ".github" / "workflows" / "ci.yml")
    validator.validate(workflow)
    steps = workflow["jobs"]["everything"]["steps"]
    (ours,) = (one["run"] for one in steps if "run" in one)
    assert ours.endswith(" .ci/run")
    steps.append({"run": 7})
    assert not validator.is_valid(workflow)


@pytest.mark.parametrize("path", _FORMS, ids=lambda path: str(path.stem))
def test_a_form_has_what_the_forge_requires(path: Path) -> None:
    """Source: GitHub's documentation, Syntax for GitHub's form schema."""
    form = loaded(path)
    if path.stem == "config":
        assert form == {"blank_issues_enabled": True}
        return
    assert form.keys() >= {"name", "description", "body"}
    ids = [one["id"] for one in form["body"]]
    assert len(ids) == len({*ids}) >= 3
    for one in form["body"]:
        assert one["type"] in {"input", "textarea", "dropdown", "checkboxes", "markdown"}
        assert one["attributes"]["label"]
        assert one.keys() <= {"type", "id", "attributes", "validations"}


def test_forms_are_there() -> None:
    assert {path.stem for path in _FORMS} == {"bug", "config", "promise", "wrong-verdict"}


def test_each_danger_has_its_code_and_its_test() -> None:
    """Every row of the threat model: files that are there, and tests that know of hostile input."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    table = text.partition("| who |")[2].partition("\n\n")[0]
    rows = [row.split(" | ") for row in table.splitlines()[2:]]
    assert len(rows) >= 12
    for row in rows:
        code, shown = (re.findall(r"`([^`]+)`", cell) for cell in row[3:5])
        assert code, row
        assert shown, row
        assert [one for one in [*code, *shown] if not (ROOT / one).is_file()] == []
        assert all(Path(one).name.startswith("test_") for one in shown)
        assert not [one for one in code if one.startswith("tests/")]
    for who in ("node", "archive", "kubelet", "stream", "inventory", "API server"):
        assert any(who in row[0] for row in rows), who


def test_a_way_to_report_is_named_and_no_address_is_invented() -> None:
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "private reporting" in text.replace("\n", " ")
        assert not re.search(r"\S@\w+\.\w+", text)
        hosts = set(re.findall(r"https://([^/>)]+)", text))
        assert hosts <= {"www.contributor-covenant.org"}


def test_hooks_run_what_tox_runs() -> None:
    """The same ruff, from Python's index alone."""
    hooks = loaded(ROOT / ".pre-commit-config.yaml")["repos"]
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["lint"]
    assert [one["repo"] for one in hooks] == ["local"]
    entries = [one["entry"] for one in hooks[0]["hooks"]]
    assert [one.split()[:2] for one in entries] == [["ruff", "check"], ["ruff", "format"]]
    assert all(one["additional_dependencies"] == lint for one in hooks[0]["hooks"])


def test_the_editor_s_line_is_ruff_s() -> None:
    text = (ROOT / ".editorconfig").read_text(encoding="utf-8")
    length = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["line-length"]
    assert text.startswith("root = true\n")
    assert f"max_line_length = {length}" in text
