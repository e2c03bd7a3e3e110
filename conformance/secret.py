"""What a user was asked for and what is to be nowhere but in memory: a password."""

from __future__ import annotations

from typing import Final


class Secret:
    """A text that prints as ``Secret``, wherever it is printed by mistake."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "Secret"

    def reveal(self) -> str:
        return self._text

    @property
    def line(self) -> bytes:
        """The text and a newline, as a program reads it from its stdin."""
        return self._text.encode("utf-8", "surrogateescape") + b"\n"


_KEPT: Final[dict[str, Secret]] = {}


def keep(name: str, text: str) -> None:
    """Keep it until this process ends, in place of an earlier one of this name."""
    _KEPT[name] = Secret(text)


def kept(name: str) -> Secret | None:
    """The one of this name; ``None``: nobody was asked."""
    return _KEPT.get(name)


def forget(name: str) -> None:
    """As if nobody had been asked."""
    _KEPT.pop(name, None)


def for_a_worker() -> dict[str, str]:
    """All of them in the clear, to be sent through a pipe and kept there."""
    return {name: secret.reveal() for name, secret in _KEPT.items()}
