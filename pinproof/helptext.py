"""Help texts as they are written: paragraphs that fill the line, and brackets that stay."""

from __future__ import annotations

from typing import Any


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
    for one in getattr(command, "commands", {}).values():
        legible(one)
    return command


def _shown(text: str | None) -> str | None:
    from rich.markup import escape

    if text is None:
        return None
    paragraphs = text.replace("``", "").split("\n\n")
    return escape("\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs))
