"""The subject of a command: its text, opening it, and what a fork changes on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from conformance import fork
from conformance.subject import Subject, SubjectUsageError
from conformance.subjects import open_subject
from pinproof.password import FLAG
from pinproof.progress import busy


@contextmanager
def opened(name: str) -> Iterator[Subject]:
    """The subject of this name, closed at the end."""
    with busy(name) as say:
        subject = open_subject(name, progress=say)
    try:
        yield subject
    finally:
        subject.close()


def fork_at(path: Path | None) -> fork.Fork:
    """The fork that the file describes; without a file one that changes nothing. Raises
    :class:`conformance.known.KnownFailuresError`."""
    from conformance.catalogue import catalogue  # slow to import, and for forks only

    return fork.read(path, [one.id for one in catalogue()]) if path else fork.Fork()


def with_node_options(
    subject: str,
    risk: str,
    kubeconfig: Path | None,
    *,
    transport_image: str = "",
    password: bool = False,
) -> str:
    """The text of a subject with these options of real nodes. Raises :class:`SubjectUsageError`
    where an option is given to another subject."""
    given = {
        "--max-risk": risk,
        "--kubeconfig": kubeconfig,
        "--transport-image": transport_image,
        FLAG: password,
    }
    for option, value in given.items():
        if value and not subject.startswith("node:"):
            raise SubjectUsageError(f"{option} is for real nodes (node:…), not for {subject}")
    words = node_options(risk, kubeconfig, transport_image=transport_image)
    return f"{subject}{'&' if '?' in subject else '?'}{words}" if words else subject


def node_options(
    risk: str, kubeconfig: Path | None, image: str = "", *, transport_image: str = ""
) -> str:
    """Options of a run on real nodes, as their subject's text has them."""
    given = {"max-risk": risk, "image": image, "transport-image": transport_image}
    if kubeconfig is not None:
        given["kubeconfig"] = str(kubeconfig.absolute())
    return urlencode({name: value for name, value in given.items() if value}, safe="/:")
