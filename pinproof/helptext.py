"""Help texts: paragraphs that fill the line, brackets that are no markup, and words for what a
parameter takes (FILE, RELEASE) instead of its type."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, get_args

#: The words for parameters whose names do not say what they take.
_NAMED: Final = {
    "before": "RELEASE",
    "after": "RELEASE",
    "to_machine": "MACHINE",
    "nodes": "NODE",
    "confirm": "SUBJECT",
    "max_risk": "RISK",
    "report": "FOLDER",
    "directory": "FOLDER",
    "replace": "FOLDER",
    "ignore": "PROMISE",
    "as_json": "",
}


def legible(command: Any) -> Any:
    """A Click command, or a group with all of its commands, whose texts can be shown by rich.

    Rich keeps the source's line ends in all but the first paragraph, and takes ``[kubelet]`` for
    markup.
    """
    command.help = _shown(command.help)
    command.epilog = _shown(command.epilog)
    for parameter in command.params:
        if getattr(parameter, "help", None):
            parameter.help = _shown(parameter.help)
        if parameter.metavar is None:
            parameter.metavar = _metavar(parameter)
        if parameter.param_type_name == "argument":
            # The metavar of an argument stands where its name does.
            parameter.display_type_rich = lambda ctx: ""
    for one in getattr(command, "commands", {}).values():
        legible(one)
    made = command.get_help_option
    command.get_help_option = lambda ctx: _without_type(made(ctx))
    return command


def _without_type(flag: Any) -> Any:
    """A flag that Click makes itself, or ``None`` where it makes none."""
    if flag is not None:
        flag.metavar = ""
    return flag


def _metavar(parameter: Any) -> str | None:
    """What a parameter takes; nothing for a flag, and the choices where there are some."""
    kind = getattr(parameter, "type_descriptor", None)  # only of typer's parameters
    if kind is None or kind.is_choice:
        return None
    taken = (get_args(kind.annotation) or (kind.annotation,))[0]
    named = _NAMED.get(parameter.name)
    if taken is bool:
        word = ""
    elif named is not None:
        word = named
    elif taken is Path and parameter.param_type_name == "option":
        word = "FILE"
    elif taken in (int, float):
        word = "NUMBER"
    else:
        word = parameter.name.upper().replace("_", "-")
    return word


def _shown(text: str | None) -> str | None:
    from rich.markup import escape

    if text is None:
        return None
    paragraphs = text.replace("``", "").split("\n\n")
    return escape("\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs))
