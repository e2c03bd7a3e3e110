"""Words that were given up do not come back: in pages, in messages, in names.

A word is given up by a row of a table here: the pattern, and what to write instead. Tests and
CHANGELOG.md, which tells what was, are not looked at; docs/style.md shows some rows on purpose.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = (
    "conformance", "differential", "hil", "hunting", "pinproof", "reference", "reports",
    "topologies",
)  # fmt: skip
SHELVES: Final = ("docs/tutorials", "docs/how-to", "docs/reference", "docs/explanation")
PAGES: Final = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tests/README.md")),
    *(
        page
        for folder in ("docs", "docs/tables", *SHELVES)
        for page in sorted((ROOT / folder).glob("*.md"))
        # Pages of mutants quote the kubelet's source.
        if page.name != "style.md" and not page.name.startswith("mutants-")
    ),
]

#: Of pages and messages: pattern, and what to write instead.
PHRASES: Final[dict[str, str]] = {
    r"\blets? us in\b": "authentication failed",
    r"\bgoes before (?:any|every) file\b": "overrides every configuration file",
    r"\b[Ww]ho has no\b": "Without …,",
    r"\bflavours?\b": "distribution, or architecture",
    r"\b(?:[Nn]obody|[Ss]omebody|[Ww]hoever)\b": "name the actor: no user, no container, …",
    r"\b(?:[Ww]e|[Oo]urs?)\b|(?<![\d}/] )\bus\b(?!\))": "name the actor: pinproof, the runner, …",
    r"\bis none of\b": "it is one of …",
    r"(?<![Tt]here )\b(?:is|are) no (?!longer\b|such\b)\w": "is not a …",
    r"\bwithout a word\b": "without a message",
    r"\blast words\b": "the last error, or the last lines of its log",
    r"\bpassed over\b": "ignored",
    r"\btorn\b": "cut off",
    r"\bmay not read\b": "no permission to read",
    r"\bwas told\b|\b(?:is|are) told\b": "is reported, is configured, …",
    r"\btells? of\b": "reports, names, shows",
    r"\bstrangers?\b": "others, unknown containers, …",
    r"\bgoes by\b": "uses",
    r"\bin so many words\b": "say what is meant",
    r"\bthe ways? out\b|\bsteps out\b": "how to recover",
    r"\bcount(?:s|ed)? for nothing\b": "is ignored",
    r"\bcan be told\b|\bcould not be told\b": "there is no verdict",
    r"\b(?:is|are|be) set right\b": "is repaired",
    r"\btaken as it is\b": "accepted as it is",
    r"\bwhich means nothing\b": "which is not one of …",
    r"\bworth having\b": "what it is for",
    r"\btoo much of it\b": "more than …",
    r"(?<!-)\banew\b": "again",
    r"\bgone for good\b": "permanently …",
    r"\bits twins\b": "others of its kind",
    r"\bdifferent questions\b": "exclude one another",
    r"(?:^|: )no (?:list|mapping|KubeletConfiguration)\b": "not a …",
}

#: Of classes, functions, arguments and variables of the packages: a whole name each.
NAMES: Final[dict[str, str]] = {
    "Hands": "what it carries out: Session, Shell, …",
    "Carrier": "Pods, or the way that pods take",
    "Member": "what it is a member of: Node, Entry, …",
    "Look": "Observation",
    "First": "what comes first",
    "Second": "what comes second",
    "_Desk": "a class named after what it does",
    "_Unaligned": "a class named after what it does",
    "DIES_IN_MAIN": "the behaviour, as the kubelet shows it",
    "last_words": "error_text",
    "judges_holders": "can_refuse_holders",
    "flavour": "distribution, or architecture",
    "told": "what it holds: lines, message, expected, …",
}


#: Ids that scenarios had, and words that saved cases of ``differential.exactness`` have.
KEPT: Final = ("conformance/aliases.py", "differential/exactness/files.py")

#: Texts of Kubernetes' own: of the kubelet, and of the form of an issue.
KUBERNETES_OWN: Final = r"Panicking because we cannot guarantee|How can we reproduce it\?"


def _docstrings(tree: ast.AST) -> set[int]:
    """The string constants that stand alone as a statement."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def _text(node: ast.JoinedStr) -> str:
    """A formatted string, with ``{}`` for each value."""
    return "".join(
        part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "{}"
        for part in node.values
    )


def messages(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string literal that is not a docstring."""
    tree = ast.parse(source)
    skipped = _docstrings(tree)
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr():
                skipped.update(id(part) for part in node.values)
                yield node.lineno, _text(node)
            case ast.Constant(value=str(text)) if id(node) not in skipped:
                yield node.lineno, text


def names(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each class, function, argument and variable that the source defines."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name


def given_up(text: str) -> Iterator[str]:
    """What to write instead of each phrase in a text that was given up."""
    plain = re.sub(KUBERNETES_OWN, "", " ".join(text.split()))
    for pattern, instead in PHRASES.items():
        if found := re.search(pattern, plain):
            yield f"“{found[0]}”: {instead}"


def _sentences(page: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each paragraph of a page, without links' targets and names in backticks."""
    line = 1
    for paragraph in page.read_text(encoding="utf-8").split("\n\n"):
        yield line, re.sub(r"\]\([^)]*\)|`[^`\n]*`", "…", paragraph)
        line += paragraph.count("\n") + 2


@cache
def _modules() -> dict[str, str]:
    """The source of each module of the packages."""
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


def test_pages_use_no_phrase_that_was_given_up() -> None:
    found = [
        f"{page.relative_to(ROOT)}:{line}: {instead}"
        for page in PAGES
        for line, text in _sentences(page)
        for instead in given_up(text)
    ]
    assert not found, "\n".join(found)


def test_messages_use_no_phrase_that_was_given_up() -> None:
    """Every string literal of the packages but docstrings."""
    found = [
        f"{path}:{line}: {instead}"
        for path, source in _modules().items()
        if path not in KEPT
        for line, text in messages(source)
        for instead in given_up(text)
    ]
    assert not found, "\n".join(found)


def test_no_name_was_given_up() -> None:
    found = [
        f"{path}:{line}: {name}: {NAMES[name]}"
        for path, source in _modules().items()
        for line, name in names(source)
        if name in NAMES
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("x = 'it does not let us in'", "it does not let us in"),
        ("raise E(f'{a} is no kubelet')", "{} is no kubelet"),
        ("f(help='We read it')", "We read it"),
    ],
)
def test_a_phrase_that_comes_back_is_seen(source: str, text: str) -> None:
    assert [found for _, found in messages(source)] == [text]
    assert list(given_up(text))


def test_what_is_no_message_is_left_alone() -> None:
    """Docstrings; a plain sentence with one of the words in another sense."""
    assert list(messages("'''We say so.'''\ndef f():\n    'Nobody.'\n")) == []
    assert list(given_up("There is no CRI; there is no such file; a gap of {} us")) == []


def test_a_name_that_comes_back_is_seen() -> None:
    source = "class Hands:\n    def look(self, flavour): last_words = 1"
    assert [name for _, name in names(source) if name in NAMES] == [
        "Hands", "flavour", "last_words",
    ]  # fmt: skip
