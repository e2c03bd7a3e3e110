"""The options of a run: one declaration serves ``pinproof run`` and pytest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance import plugin
from conformance.session import options
from conformance.session.options import OPTIONS, Option
from pinproof.cli import loaded

#: By pytest only: ``pinproof run`` decides these itself.
_OF_PYTEST = {"stream", "no-smoke"}
#: For a real node, which pytest gets in the subject's name; and of pytest itself.
_OF_THE_COMMAND = {
    *("keyword", "max_risk", "kubeconfig", "dry_run", "verbose", "ask_sudo_password", "explore")
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
    """Flag, help, default, and whether it may be repeated."""
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
