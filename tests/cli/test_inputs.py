"""``simulate`` and ``draw``: one set of options, and one look at the machine."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conformance import discovered
from pinproof import picture
from pinproof.cli import app, loaded
from pinproof.inputs import Inputs, Question
from pinproof.settings import Given


@pytest.mark.parametrize("name", ["simulate", "draw"])
@pytest.mark.parametrize("asked", [Given, Question])
def test_each_field_is_an_option(name: str, asked: type) -> None:
    """Of both commands, by the same declaration."""
    names = [one.name for one in loaded(name).params]
    fields = [field.name for field in dataclasses.fields(asked)]
    at = names.index(fields[0])
    assert names[at : at + len(fields)] == fields


@pytest.mark.parametrize("words", [["simulate", "--pods", "2"], ["draw", "2s-2n-16c-smt2"]])
def test_a_machine_is_looked_at_once_for_its_picture(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Table, picture on the terminal and SVG file have one answer."""
    calls: list[object] = []

    def counted(*args: Any, **settings: Any) -> object:
        calls.append(args)
        return discovered.beside_of(*args, **settings)

    monkeypatch.setattr(picture, "beside_of", counted)
    done = CliRunner().invoke(app, [*words, "--svg", str(tmp_path / "picture.svg")])
    assert done.exit_code == 0, done.output
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ([], Given()),
        (["--policy", ""], Given(policy="")),
        (["--policy-option", "a=1", "--policy-option", "b=2"], Given(policy_option=["a=1", "b=2"])),
        (["--config", "x.yaml", "--reserved", "0"], Given(config=Path("x.yaml"), reserved="0")),
    ],
)
def test_what_is_given_reaches_the_command(
    words: list[str], given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Given] = []

    def answered(_machine: object, node: Inputs) -> None:
        seen.append(node.given)
        raise RuntimeError

    monkeypatch.setattr("pinproof.inputs.answered", answered)
    CliRunner().invoke(app, ["simulate", "--pods", "1", *words])
    assert seen == [given]


def test_an_empty_question_asks_nothing() -> None:
    assert Given().nothing
    assert not Given(policy="").nothing
    assert Question() == Question(None, None, oldest_first=False)
