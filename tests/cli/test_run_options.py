"""Options: one declaration serves ``run`` and pytest, another ``simulate`` and ``draw``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conformance import discovered, plugin
from conformance.session import options
from conformance.session.options import OPTIONS, Option
from pinproof import picture
from pinproof.cli import app, loaded
from pinproof.inputs import Inputs, Question
from pinproof.settings import Given

#: By pytest only: ``pinproof run`` decides these itself.
_OF_PYTEST = {"stream", "no-smoke"}
#: For a real node, which pytest gets in the subject's name; and of pytest itself.
_OF_THE_COMMAND = {
    *("keyword", "max_risk", "kubeconfig", "transport_image", "ask_sudo_password"),
    *("dry_run", "verbose", "explore"),
}


def _parameters() -> dict[str, Any]:
    return {one.name: one for one in loaded("run").params}


def test_the_command_and_pytest_have_the_same_options() -> None:
    """But for those that only one of them can have."""
    of_run = set(_parameters()) - _OF_THE_COMMAND - {"help"}
    assert of_run == {option.name for option in OPTIONS} - _OF_PYTEST


@pytest.mark.parametrize(
    "option", [one for one in OPTIONS if one.name not in _OF_PYTEST], ids=lambda one: one.name
)
def test_an_option_is_the_same_for_both(option: Option) -> None:
    found = _parameters()[option.name]
    assert found.opts == [f"--{option.name}"]
    assert found.help.replace("\\[", "[") == option.help
    default = getattr(found.default, "value", found.default)
    assert (default or None) == (option.default or None)
    assert found.multiple is option.repeatable
    parser = pytest.Parser(_ispytest=True)
    plugin.pytest_addoption(parser)
    parsed = parser.parse([])
    assert getattr(parsed, option.key) is None  # so that the settings file may say it
    text = [str(one) for one in option.choices[:1] or ("3",)]
    flag = option.flag if option.type is bool else f"{option.flag}={text[0]}"
    assert getattr(parser.parse([flag]), option.key) in (3, True, text[0], text)


def test_arguments_are_those_of_pytest() -> None:
    given = options.arguments(
        subject="reference",
        machine=["all", "1s-*"],
        release="",
        behaviour=None,
        floor=2,
        record=Path("out"),
        no_smoke=True,
    )
    assert given == [
        "--pin-subject=reference",
        "--pin-machine=all",
        "--pin-machine=1s-*",
        "--pin-floor=2",
        "--pin-record=out",
        "--pin-no-smoke",
    ]


# -- simulate and draw -----------------------------------------------------------------------------


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

    def answered(_machine: object, node: Inputs, _devices: object) -> None:
        seen.append(node.given)
        raise RuntimeError

    monkeypatch.setattr("pinproof.inputs.answered", answered)
    CliRunner().invoke(app, ["simulate", "--pods", "1", *words])
    assert seen == [given]


def test_an_empty_question_asks_nothing() -> None:
    assert Given().nothing
    assert not Given(policy="").nothing
    assert Question() == Question(None, None, oldest_first=False)
