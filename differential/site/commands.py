"""A page for each command: Typer's own Markdown of it, with all options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import typer
from typer.cli import get_docs_for_click

from differential.markdown import page, table
from pinproof.cli import COMMANDS, app, loaded

FOLDER: Final = "reference/commands"


def pages() -> dict[str, str]:
    """Path and text of each page, in the order of ``pinproof --help``."""
    made = {f"{FOLDER}/index.md": _index()}
    made.update((f"{FOLDER}/{name}.md", _page(name)) for name in COMMANDS)
    return made


def leaves(name: str) -> Iterator[tuple[str, Any]]:
    """The commands of this name that do something: words, and Typer's object."""
    command = loaded(name)
    inside = getattr(command, "commands", {})
    if not inside or getattr(command, "invoke_without_command", False):
        yield name, command
    yield from ((f"{name} {one}", inside[one]) for one in inside)


def _page(name: str) -> str:
    command = loaded(name)
    text = _documented(name, command, depth=1)
    if not COMMANDS[name].panel:
        text += "\nThis name is kept for old scripts.\n"
    return text


def _documented(words: str, command: Any, *, depth: int) -> str:
    """One command. A group's own commands follow below it: Typer's list cuts their help short."""
    inside, epilog = getattr(command, "commands", {}), command.epilog or ""
    context = typer.Context(command, info_name=words)
    command.epilog = None
    try:
        text = get_docs_for_click(
            obj=command, ctx=context, indent=depth - 1, name=words, call_prefix="pinproof"
        )
    finally:
        command.epilog = epilog or None
    if inside:
        text = text.partition("**Commands**:")[0]
    example = epilog.removeprefix("Example: ").replace("\\[", "[")
    if example:
        text += f"**Example**:\n\n```sh\n{example}\n```\n\n"
    below = (_documented(f"{words} {one}", inside[one], depth=depth + 1) for one in inside)
    return "".join([text, *below])


def _index() -> str:
    parts: list[str | list[str]] = ["# Commands", "`pinproof --help` lists the same commands."]
    for panel in dict.fromkeys(entry.panel for entry in COMMANDS.values()):
        rows = [
            (f"[`{words}`]({name}.md)", str(command.help or "").partition("\n\n")[0])
            for name, entry in COMMANDS.items()
            if entry.panel == panel
            for words, command in leaves(name)
        ]
        parts.append(f"## {panel or 'Names kept for old scripts'}")
        parts.append(table(("command", "what it does"), rows))
    own = typer.main.get_command(app).params
    options = [f"- `{one.opts[0]}`: {getattr(one, 'help', '')}" for one in own]
    return page([*parts, "## Options of pinproof itself", options])
