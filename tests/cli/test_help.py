"""Help and completion: what they say, and that they import no more than they need."""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import topologies
from conformance.catalogue import catalogue
from conformance.kubelets.shelf import Built
from pinproof import witnesses
from pinproof.build import print_all_built
from pinproof.cli import COMMANDS, app, loaded
from tests.cli.running import here, python


def _commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that call it."""
    for name in COMMANDS:
        found = loaded(name)
        inside = getattr(found, "commands", {})
        yield from (((name, one), inside[one]) for one in inside)
        if not inside:
            yield (name,), found


ALL = dict(_commands())


@functools.cache
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


@pytest.mark.parametrize("name", [name for name in COMMANDS if COMMANDS[name].panel])
def test_the_list_of_commands_says_what_each_says_itself(name: str) -> None:
    first = (loaded(name).help or "").partition("\n\n")[0]
    assert COMMANDS[name].help == first


@pytest.mark.parametrize("name", ["run", "explain", "machines", "draw", "simulate"])
def test_a_command_has_an_example(name: str) -> None:
    assert f"Example: pinproof {name}" in " ".join(_help((name,), 100).split())


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_what_a_parameter_takes_is_named_in_words(words: tuple[str, ...]) -> None:
    """FILE, FOLDER, RELEASE: not the type of a programming language."""
    shown = _help(words, 120)
    assert re.findall(r"<(?:str|path|bool|dir|list\S*)>|\bTEXT\b", shown) == []
    for parameter in ALL[words].params:
        if parameter.name in ("release", "before", "after"):
            assert parameter.metavar == "RELEASE"


GROUPS = ("Judge", "Rehearse", "Machines", "Nodes", "Results", "Develop")


def test_help_lists_the_commands_in_groups() -> None:
    """In the order of use; names that only old scripts use are not listed, and still work."""
    shown = _help((), 100)
    assert re.findall(r"╭─ (\w+) ─", shown) == ["Options", *GROUPS]
    listed = re.findall(r"^│ (\w+) {2,}", shown, re.MULTILINE)
    assert listed == [name for name in COMMANDS if COMMANDS[name].panel]
    assert len(listed) <= 23  # the panels group them; `job` prints for three of them
    old = [("kubelet", "build"), ("driver", "build"), ("apiserver", "build"), ("witnesses",)]
    old += [("import",), ("export",), ("known",), ("releases",), ("collect",)]
    assert {words[0] for words in old} == {name for name in COMMANDS if not COMMANDS[name].panel}
    for words in old:
        assert "Usage: pinproof " + " ".join(words) in _help(words, 100)


@pytest.mark.parametrize("kind", ["kubelet", "driver", "apiserver"])
def test_build_takes_what_the_older_command_takes(kind: str) -> None:
    new, old = ALL["build", kind], ALL[kind, "build"]
    assert inspect.unwrap(new.callback) is inspect.unwrap(old.callback)
    assert [one.opts for one in new.params] == [one.opts for one in old.params]


def test_build_list_names_the_kind_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    one = Built("1.36.3", Path("/cache/kubelet"), "sha256:" + "0" * 64, "go1.26")
    print_all_built({"kubelet": [one], "driver": []}, as_json=False)
    print_all_built({"kubelet": [one], "driver": []}, as_json=True)
    line, _, rows = capsys.readouterr().out.partition("\n")
    assert line == "kubelet             1.36.3   sha256:000000000000  /cache/kubelet"
    assert json.loads(rows) == [
        {"kind": "kubelet", "version": "1.36.3", "digest": one.digest, "path": "/cache/kubelet"}
    ]


@pytest.mark.parametrize(("words", "kind"), [("build list", "kubelet"), ("driver list", "driver")])
def test_an_empty_cache_is_listed_with_what_builds(words: str, kind: str, tmp_path: Path) -> None:
    done = here(*words.split(), status=0, XDG_CACHE_HOME=str(tmp_path))
    assert done.stdout == ""
    assert done.stderr == f"none yet: pinproof build {kind} 1.36\n"
    listed = here(*words.split(), "--json", status=0, XDG_CACHE_HOME=str(tmp_path))
    assert json.loads(listed.stdout) == []


def test_report_lists_the_witnesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the older command does."""
    asked: list[str] = []
    monkeypatch.setattr(witnesses, "witnesses", asked.append)
    for which in ("all", "1.36"):
        here("report", "--witnesses", which, status=0)
    assert asked == ["", "1.36"]


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
    modules = set(python("-c", _IMPORTED, "--help", status=0).stderr.split())
    assert "pinproof.cli" in modules
    heavy = {"pytest", "grpc", "paramiko", "hypothesis", "jinja2", "reference", "topologies"}
    assert modules & heavy == set()


_COMPLETES = """
import os, sys
from pinproof.cli import app
for line in sys.argv[1:]:
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = line, str(len(line.split(" ")) - 1)
    try:
        app(prog_name="pinproof")
    except SystemExit:
        print(end="\\0")
print(*sys.modules, file=sys.stderr)
"""


def _completed(*lines: str, **variables: str) -> tuple[list[list[str]], set[str]]:
    """What bash would offer for the last word of each line, and the modules that took."""
    variables["_PINPROOF_COMPLETE"] = "complete_bash"
    done = python("-c", _COMPLETES, *lines, cwd=None, status=0, **variables)
    *offered, _ = (one.split() for one in done.stdout.split("\0"))
    return offered, set(done.stderr.split())


def test_a_machine_is_completed() -> None:
    before = ("run --machine", "draw", "simulate --machine", "explain qos/whole --machine")
    offered, modules = _completed(*(f"pinproof {words} 2s-4n-64" for words in before))
    named = [name for name in topologies.names() if name.startswith("2s-4n-64")]
    assert offered == [named] * 4
    assert "2s-4n-64c-smt2" in named
    assert modules & {"pytest", "grpc", "paramiko", "hypothesis", "jinja2"} == set()


def test_a_machine_of_ones_own_is_completed(tmp_path: Path) -> None:
    (tmp_path / "zz-mine.tar.xz").touch()
    offered, _ = _completed("pinproof run --machine zz", PINPROOF_MACHINES=str(tmp_path))
    assert offered == [["zz-mine"]]


def test_a_scenario_is_completed() -> None:
    offered, _ = _completed("pinproof explain pool/", "pinproof run -k pool/")
    named = [one.id for one in catalogue() if one.id.startswith("pool/")]
    assert offered == [named] * 2
    assert len(named) > 3


def test_a_command_is_completed() -> None:
    offered, modules = _completed("pinproof re")
    assert offered == [["restore", "report"]]
    assert "topologies" not in modules


def test_a_misspelt_command_is_named() -> None:
    done = here("machnies", status=2)
    assert "Did you mean 'machines'" in done.stderr
