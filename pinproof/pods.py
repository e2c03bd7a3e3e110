"""The pods that ``simulate``, ``draw`` and ``upgrade`` take: CPU requests, or manifests.

What belongs here: which of the two is meant. What never does: manifests (``manifests``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from conformance.pods import guaranteed
from conformance.subject import SubjectUsageError
from pinproof.files import STDIN, documents
from pinproof.manifests import MOST_PODS, BadManifest, Found, pods_of
from reference.errors import QuantityError
from reference.pods.quantity import quantity
from reference.steps import Pod
from topologies.errors import one_line

__all__ = ["pods_given"]

_ACCEPTED: Final = (
    "it is CPU requests such as 4,2,1.5,1+1, a file of manifests, or - for manifests on stdin"
)


def pods_given(text: str, *, oldest_first: bool = False) -> Found:
    """The pods of ``--pods``. Raises :class:`SubjectUsageError`: one line that says what is taken,
    or the file and the place at fault."""
    if _are_requests(text):
        return Found(tuple(_guaranteed(text)))
    if text != STDIN and not (text and (Path(text).exists() or Path(text).parent.parent.is_file())):
        raise SubjectUsageError(f"--pods {one_line(repr(text), 200)}: {_ACCEPTED}; no such file")
    try:
        return pods_of(documents(text), oldest_first=oldest_first)
    except BadManifest as error:
        where = "stdin" if text == STDIN else one_line(text)
        raise SubjectUsageError(f"{where}: {error}") from error


def _are_requests(text: str) -> bool:
    """Whether every part of it is a quantity that begins with a digit or a dot."""
    parts = [one.strip() for one in text.replace("+", ",").split(",")]
    try:
        return all(quantity(one) is not None and one[0] in "0123456789." for one in parts)
    except QuantityError:
        return False


def _guaranteed(text: str) -> Iterator[Pod]:
    parts = text.split(",")
    if len(parts) > MOST_PODS:
        raise SubjectUsageError(f"--pods: more than {MOST_PODS} pods")
    for number, part in enumerate(parts, 1):
        yield guaranteed(f"pod{number}", *(one.strip() for one in part.split("+")))
