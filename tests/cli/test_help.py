"""Help and completion: what they say, and that they import no more than they need."""

from __future__ import annotations

import inspect
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import topologies
from conformance.catalogue import catalogue
from pinproof.cli import COMMANDS, app, loaded

if TYPE_CHECKING:
    from tests.cli.conftest import Command


def _commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that call it."""
    for name in COMMANDS:
        found = loaded(name)
        inside = getattr(found, "commands", {})
        yield from (((name, one), inside[one]) for one in inside)
        if not inside:
            yield (name,), found


ALL = dict(_commands())


def _help(words: tuple[str, ...], width: int) -> str:
    """What ``--help`` prints on a terminal of this width, without frames."""
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": str(width)})
    assert done.exit_code == 0, done.output
    return done.output


def _paragraphs(text: str) -> list[str]:
    """What stands above the first frame, a paragraph each, with its lines as they are."""
    above = text.partition("╭")[0]
    lines = "\n".join(line.rstrip() for line in above.splitlines())
    return [one.strip("\n") for one in re.split(r"\n{2,}", lines) if one.strip()]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_a_help_text_fills_its_lines_and_loses_nothing(words: tuple[str, ...], width: int) -> None:
    """No bracket is taken for markup, and no line ends where the source's does."""
    command = ALL[words]
    shown = _help(words, width)
    _usage, *paragraphs = _paragraphs(shown)
    written = inspect.cleandoc(command.callback.__doc__).replace("``", "").split("\n\n")
    assert [" ".join(one.split()) for one in paragraphs] == [
        " ".join(one.split()) for one in written
    ]
    for paragraph in paragraphs:
        lines = [line.strip() for line in paragraph.splitlines()]
        for line, following in itertools.pairwise(lines):
            assert len(line) + 1 + len(following.split()[0]) > width - 2, paragraph
    for parameter in command.params:
        for bracketed in re.findall(r"\[\w+\]", (parameter.help or "").replace("\\[", "[")):
            assert bracketed in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_itself(name: str) -> None:
    """Its first paragraph."""
    first = (loaded(name).help or "").partition("\n\n")[0]
    assert COMMANDS[name].help == first


_IMPORTED = """
import sys
from pinproof.cli import app
try:
    app(sys.argv[1:])
except SystemExit:
    pass
print(*sorted(sys.modules), file=sys.stderr)
"""


def test_help_imports_no_command() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTED, "--help"], capture_output=True, text=True, check=True
    )
    loaded_modules = set(done.stderr.split())
    assert "pinproof.cli" in loaded_modules
    heavy = {"pytest", "grpc", "paramiko", "hypothesis", "jinja2", "reference", "topologies"}
    assert loaded_modules & heavy == set()


def _completed(line: str, **variables: str) -> tuple[list[str], set[str]]:
    """What bash would offer for the last word of a line, and the modules that took."""
    environment = {
        **os.environ,
        **variables,
        "_PINPROOF_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    script = _IMPORTED.replace("app(sys.argv[1:])", "app(prog_name='pinproof')")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout.split(), set(done.stderr.split())


@pytest.mark.parametrize(
    "line",
    [
        "pinproof run --machine 2s-4n-64",
        "pinproof draw 2s-4n-64",
        "pinproof simulate --machine 2s-4n-64",
        "pinproof explain qos/whole --machine 2s-4n-64",
    ],
)
def test_a_machine_is_completed(line: str) -> None:
    offered, modules = _completed(line)
    assert offered == [name for name in topologies.names() if name.startswith("2s-4n-64")]
    assert "2s-4n-64c-smt2" in offered
    assert modules & {"pytest", "grpc", "paramiko", "hypothesis", "jinja2"} == set()


def test_a_machine_of_ones_own_is_completed(tmp_path: Path) -> None:
    (tmp_path / "zz-mine.tar.xz").touch()
    offered, _ = _completed("pinproof run --machine zz", PINPROOF_MACHINES=str(tmp_path))
    assert offered == ["zz-mine"]


@pytest.mark.parametrize("before", ["pinproof explain", "pinproof run -k"])
def test_a_scenario_is_completed(before: str) -> None:
    offered, _ = _completed(f"{before} pool/")
    assert offered == [one.id for one in catalogue() if one.id.startswith("pool/")]
    assert len(offered) > 3


def test_a_command_is_completed() -> None:
    offered, modules = _completed("pinproof re")
    assert offered == ["report", "restore", "releases"]
    assert "topologies" not in modules


def test_a_misspelt_command_is_named(pinproof: Command) -> None:
    done = pinproof("machnies")
    assert done.returncode == 2
    assert "Did you mean 'machines'" in done.stderr
