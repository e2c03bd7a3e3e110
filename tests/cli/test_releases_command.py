"""``pinproof releases``, and the page that is made of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pinproof.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "releases.md"


@pytest.mark.parametrize("command", ["releases", "explain"])
def test_two_releases_are_compared(command: str) -> None:
    """1.32 brought strict-cpu-reservation; the way back takes it away."""
    there = CliRunner().invoke(app, [command, "1.31", "1.32", "--json"])
    back = CliRunner().invoke(app, [command, "1.32", "1.31", "--json"])
    assert there.exit_code == back.exit_code == 0
    gained = {one["name"]: one["gained"] for one in json.loads(there.stdout)}
    lost = {one["name"]: one["gained"] for one in json.loads(back.stdout)}
    assert gained["strict-reservation"] is True
    assert gained["last-admitted-stays"] is False
    assert lost == {name: not on for name, on in gained.items()}


def test_one_release_says_what_it_brought() -> None:
    alone = CliRunner().invoke(app, ["releases", "1.32", "--json"])
    both = CliRunner().invoke(app, ["releases", "1.31", "1.32", "--json"])
    assert alone.stdout == both.stdout


def test_the_table_is_for_people() -> None:
    shown = CliRunner().invoke(app, ["releases", "1.21", "1.22"], terminal_width=200)
    assert shown.exit_code == 0
    assert "+  ordered-allocation" in shown.stdout
    same = CliRunner().invoke(app, ["releases", "1.36.3", "1.36.4"])
    assert "The model knows no difference" in same.stdout


def test_no_source_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a narrow terminal too: a link that is broken in two cannot be followed."""
    monkeypatch.setenv("COLUMNS", "60")
    shown = CliRunner().invoke(app, ["releases", "1.36"]).stdout.splitlines()
    for one in json.loads(CliRunner().invoke(app, ["releases", "1.36", "--json"]).stdout):
        assert f"     {one['source']}" in shown
    assert max(len(line) for line in shown if "https://" not in line) <= 60


def test_the_page_holds_the_table() -> None:
    """``pinproof releases --markdown`` prints what belongs at its end."""
    printed = CliRunner().invoke(app, ["releases", "--markdown"]).stdout
    assert PAGE.read_text(encoding="utf-8").partition("## The table\n\n")[2] == printed
