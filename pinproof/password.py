"""``--ask-sudo-password``: asked once, before anything else, and kept in memory alone.

What belongs here: the option and the question. What never does: how the password reaches sudo
(:mod:`hil.transport.supervised`), or another process (:mod:`conformance.secret`).
"""

from __future__ import annotations

import getpass
import sys
from typing import Annotated, Final

import typer

from conformance.secret import keep, kept
from conformance.subject import SubjectUsageError
from hil.transport.inventory import SUDO_PASSWORD

#: The option, also for a command that this one starts.
FLAG: Final = "--ask-sudo-password"
AskSudoPassword = Annotated[
    bool,
    typer.Option(
        FLAG,
        "-K",
        help="Ask for the password with which sudo makes logins root. Without a terminal the "
        "password is the first line of stdin.",
    ),
]


def ask() -> None:
    """Ask for the password, unless that was done. Raises :class:`SubjectUsageError` for an empty
    one."""
    if kept(SUDO_PASSWORD) is not None:
        return
    try:
        on_a_terminal = sys.stdin.isatty()
        text = getpass.getpass("sudo password: ") if on_a_terminal else sys.stdin.readline()
    except EOFError:
        text = ""
    text = text.rstrip("\r\n")
    if not text:
        raise SubjectUsageError(f"{FLAG}: no password was given")
    keep(SUDO_PASSWORD, text)


def line() -> bytes:
    """The password as another process of this program reads it from its stdin; ``b""`` if there is
    none."""
    secret = kept(SUDO_PASSWORD)
    return b"" if secret is None else secret.line
