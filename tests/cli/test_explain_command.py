"""``pinproof explain``: scenarios and releases; ``releases`` is an older name of the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pinproof.cli import app


def printed(*arguments: str, **settings: Any) -> str:
    """What a command prints that succeeds."""
    done = CliRunner().invoke(app, arguments, catch_exceptions=False, **settings)
    assert done.exit_code == 0
    return done.stdout


def test_explain_lists_every_scenario() -> None:
    text = printed("explain")
    assert "qos/best-effort-shares" in text
    assert "…" not in text
    rows = json.loads(printed("explain", "--json"))
    assert len(rows) >= 25
    assert all(row["url"].startswith("https://") for row in rows)


def test_explain_as_json_has_the_steps() -> None:
    facts = json.loads(printed("explain", "packing/whole-core", "--json"))
    assert facts["steps"][1] == "start the kubelet"


# -- releases --------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs/reference/releases.md"


@pytest.mark.parametrize("command", ["releases", "explain"])
def test_two_releases_are_compared(command: str) -> None:
    """1.32 brought strict-cpu-reservation; the way back takes it away."""
    gained, lost = (
        {one["name"]: one["gained"] for one in json.loads(printed(command, *both, "--json"))}
        for both in (("1.31", "1.32"), ("1.32", "1.31"))
    )
    assert gained["strict-reservation"] is True
    assert gained["last-admitted-stays"] is False
    assert lost == {name: not on for name, on in gained.items()}


def test_one_release_says_what_it_brought() -> None:
    assert printed("releases", "1.32", "--json") == printed("releases", "1.31", "1.32", "--json")


def test_the_table_is_for_people() -> None:
    assert "+  ordered-allocation" in printed("releases", "1.21", "1.22", terminal_width=200)
    assert "The model knows no difference" in printed("releases", "1.36.3", "1.36.4")


def test_no_source_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a narrow terminal too: a link that is broken in two cannot be followed."""
    monkeypatch.setenv("COLUMNS", "60")
    shown = printed("releases", "1.36").splitlines()
    for one in json.loads(printed("releases", "1.36", "--json")):
        assert f"     {one['source']}" in shown
    assert max(len(line) for line in shown if "https://" not in line) <= 60


def test_the_page_holds_the_table() -> None:
    """``pinproof releases --markdown`` prints what belongs at its end."""
    page = PAGE.read_text(encoding="utf-8")
    assert page.partition("## The table\n\n")[2] == printed("releases", "--markdown")
