"""Passwords that a user was asked for, which are kept only in memory."""

from __future__ import annotations

from typing import Final


class Secret:
    """A text that prints as ``Secret`` if it is printed by mistake."""

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
    """Keep a secret until this process ends, in place of an earlier one of this name."""
    _KEPT[name] = Secret(text)


def kept(name: str) -> Secret | None:
    """The secret of this name; ``None`` if the user was not asked for it."""
    return _KEPT.get(name)


def forget(name: str) -> None:
    """Forget the secret of this name, if there is one."""
    _KEPT.pop(name, None)


def for_a_worker() -> dict[str, str]:
    """All secrets in clear text, to be sent to a worker through its pipe."""
    return {name: secret.reveal() for name, secret in _KEPT.items()}
