"""A capture on disk: ``NAME.tar.xz`` and ``NAME.toml`` beside it, as the catalogue has them.

Each of the two files is written whole or not at all.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Final

from topologies.capturing.captured import Capture
from topologies.capturing.errors import BadTarget, CaptureError
from topologies.errors import UnwritableMachine
from topologies.machine import Machine
from topologies.packing import pack

SUFFIX: Final = ".tar.xz"
#: What TOML escapes in a basic string and JSON does not.
_DELETE: Final = {0x7F: "\\u007f"}


def description(capture: Capture, *, name: str = "", why: str = "") -> str:
    """The text of ``NAME.toml``: shape, why, source and digest."""
    machine = Machine(name=name, tree=capture.tree)
    facts = {"shape": capture.shape, "why": why, "source": capture.source, "digest": machine.digest}
    return "".join(f"{key} = {_toml(value)}\n" for key, value in facts.items())


def check_place(path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """The archive's path that :func:`write_capture` uses for ``path``, to check it before a
    capture. Raises :class:`BadTarget` as that does."""
    text = os.fspath(path)
    place = Path(text if text.endswith(SUFFIX) else text + SUFFIX)
    if place.name == SUFFIX:
        raise BadTarget(str(place), "a capture needs a name")
    existing = [file for file in (place, _note(place)) if file.exists() or file.is_symlink()]
    if existing and not force:
        raise BadTarget(str(existing[0]), "it is there already; --force replaces it")
    if not place.parent.is_dir():
        raise BadTarget(str(place), "there is no such folder")
    return place


def write_capture(
    capture: Capture, path: str | os.PathLike[str], *, why: str = "", force: bool = False
) -> Path:
    """Write ``capture`` to ``path``, which ends in ``.tar.xz`` (added where it does not), and its
    description beside it; returns the archive's path.

    Raises :class:`BadTarget` where either file is there and ``force`` is not given, or there is no
    folder for them; :class:`CaptureError` where they cannot be written.
    """
    place = check_place(path, force=force)
    name = place.name.removesuffix(SUFFIX)
    try:
        write_whole(_note(place), description(capture, name=name, why=why).encode(), mode=0o644)
        pack(capture.tree, place, replace=force)
    except UnwritableMachine as error:
        raise CaptureError(str(place), f"cannot write: {error.reason}") from error
    except OSError as error:
        raise CaptureError(str(place), f"cannot write: {error.strerror or error}") from error
    return place


def _note(place: Path) -> Path:
    return place.with_name(f"{place.name.removesuffix(SUFFIX)}.toml")


def _toml(value: str) -> str:
    """A TOML string. It has JSON's escapes, DEL escaped too, and no surrogates."""
    clean = value.encode("utf-8", "replace").decode()
    return json.dumps(clean, ensure_ascii=False).translate(_DELETE)


def write_whole(place: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write under another name first: what is at ``place`` is whole at any moment."""
    descriptor, draft = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            os.fchmod(stream.fileno(), mode)
        os.replace(draft, place)  # noqa: PTH105
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
