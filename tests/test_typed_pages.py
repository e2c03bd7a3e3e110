"""The program that types a page's commands sees what is wrong there, and names the line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Done, python

ROOT = Path(__file__).parents[1]


@pytest.fixture
def typed(tmp_path: Path) -> Callable[..., Done]:
    """Type a page of this text in a folder of its own."""

    def typed(text: str, section: str = "", **environment: str) -> Done:
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        word = f"page.md{section and '#'}{section}"
        words = ("-m", "tests.support.typed_pages", word)
        return python(*words, cwd=tmp_path, status=None, PYTHONPATH=str(ROOT), **environment)

    return typed


def console(text: str) -> str:
    return f"# Page\n\n```console\n{text}```\n"


@pytest.mark.parametrize(
    "text",
    [
        "$ echo one\none\n",
        "$ echo one 12 s\none ... s\n",
        "$ mkdir -p a && cd a\n$ basename $PWD\na\n",
        "$ name=one\n$ echo $name\none\n",
        "$ echo one \\\n> two\none two\n",
        "$ echo 'Exit status 3.' && (exit 3)\nExit status 3.\n",
        "$ (exit 7)\n$ echo $?\n7\n",
        "$ echo told >&2\n",
        "$ cat\n",
        "$ printf one\none\n",
    ],
)
def test_a_true_page_is_gone_through(typed: Callable[..., Done], text: str) -> None:
    done = typed(console(text))
    assert (done.returncode, "all as the page has them" in done.stdout) == (0, True), done.stdout


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("$ echo one\ntwo\n", 4, "and it writes\none"),
        ("$ echo one\none\n$ echo two\n", 6, "and it writes\ntwo"),
        ("$ true\nwritten\n", 4, "the page shows\nwritten"),
        ("$ pinprof run\n", 4, "exit status 127 instead of 0"),
        ("$ true\n$ false\n", 5, "exit status 1 instead of 0"),
        ("$ echo 'Exit status 1.'\nExit status 1.\n", 4, "exit status 0 instead of 1"),
        ("$ (exit 7)\n$ echo $?\n8\n", 5, "and it writes\n7"),
        ("$ if\n", 4, "instead of 0"),
        ("$ exit 0\n", 4, "the shell ended"),
    ],
)
def test_a_wrong_page_fails_with_its_line(
    typed: Callable[..., Done], text: str, line: int, said: str
) -> None:
    done = typed(console(text))
    assert done.returncode == 1
    assert f"\npage.md:{line}: " in done.stdout
    assert said in done.stdout


def test_a_block_of_a_shell_script_is_typed(typed: Callable[..., Done]) -> None:
    text = "```sh\nname=one\necho two\n```\n\n" + console("$ echo $name\none\n")
    assert typed(text).returncode == 0
    assert "page.md:2: $ name=" in typed(text.replace("echo two", "false")).stdout


def test_files_are_written_where_the_shell_is(typed: Callable[..., Done]) -> None:
    text = "it's `one`\n  $HOME\n"
    for language in ("yaml", "sh"):
        page = console("$ mkdir -p a && cd a\n") + f"\n```{language} b/c\n{text}```\n\n"
        assert typed(page + console(f"$ cat ../a/b/c\n{text}")).returncode == 0


def test_what_is_not_typed_is_said(typed: Callable[..., Done]) -> None:
    text = console("$ true\n") + "\n<!-- left out: it takes hours -->\n```sh\nfalse\n```\n"
    done = typed(text)
    assert (done.returncode, done.stderr) == (0, "")
    assert "!!! NOT TYPED: page.md:9: it takes hours\n" in done.stdout


def test_what_needs_something_is_typed_where_that_is(typed: Callable[..., Done]) -> None:
    text = "<!-- needs NODE: a node -->\n```console\n$ echo $NODE\nn1\n```\n"
    assert typed(text, NODE="n1").returncode == 0
    assert typed(text, NODE="n2").returncode == 1
    assert "!!! NOT TYPED: page.md:3: a node (NODE)" in typed(text).stdout


def test_one_section_is_typed(typed: Callable[..., Done]) -> None:
    """With the sections below it; a comment of a script is not a heading."""
    text = (
        "# Page\n```sh\nfalse\n```\n## A start\n```sh\n# no heading\ntrue\n```\n"
        "### Below\n```sh\necho below\n```\n## End\n```sh\nfalse\n```\n"
    )
    done = typed(text, "a-start")
    assert (done.returncode, "2 commands" in done.stdout) == (0, True), done.stdout
    assert typed(text, "end").returncode == 1


@pytest.mark.parametrize(
    ("text", "section", "said"),
    [
        ("# Page\n", "", "page.md: nothing to type"),
        ("# Page\n", "gone", "page.md#gone: no section 'gone'"),
    ],
)
def test_a_page_with_nothing_to_type_is_wrong_usage(
    typed: Callable[..., Done], text: str, section: str, said: str
) -> None:
    done = typed(text, section)
    assert (done.returncode, done.stderr) == (2, f"typed_pages: {said}\n")


def test_a_page_that_is_not_there_is_wrong_usage() -> None:
    done = python("-m", "tests.support.typed_pages", "gone.md", cwd=ROOT, status=2)
    assert done.stderr == "typed_pages: gone.md: No such file or directory\n"
