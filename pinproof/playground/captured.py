"""A capture that a reader of the page hands over: its machine, and what else it has of a node.

What belongs here: an archive in base64 in, a machine and texts out. :mod:`topologies.archive` reads
the archive, as any that may be hostile.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import topologies
from pinproof.files import members
from pinproof.node_archive import CONFIG, FOLDER, PODS, STATE, collected
from topologies import Machine, MachineError


@lru_cache(maxsize=4)
def machine_of(name: str, archive: str) -> Machine:
    """The machine that a story names, or that of its archive. Raises :class:`MachineError`."""
    if not archive:
        return topologies.machine(name)
    with _file(name, archive) as path:
        try:
            return topologies.machine(path)
        except MachineError as error:
            raise MachineError(str(error).replace(f"{path.parent}/", "")) from error


def parts_of(name: str, archive: str) -> dict[str, str]:
    """What ``pinproof capture --node`` put beside the machine, by the fields of a story: ``""`` for
    what is not there. Raises :class:`MachineError` where the archive has no machine."""
    machine_of(name, archive)
    with _file(name, archive) as path:
        there, release = members(path, FOLDER), collected(str(path)).release
    fields = {"config": CONFIG, "state": STATE, "ran": PODS}
    texts = {name: there.get(of, b"").decode("utf-8", "replace") for name, of in fields.items()}
    return {**texts, "release": release}


@contextmanager
def _file(name: str, archive: str) -> Iterator[Path]:
    try:
        data = base64.b64decode(archive, validate=True)
    except ValueError as error:
        raise MachineError("the capture is damaged: it is not base64") from error
    if not topologies.is_archive_name(name) or Path(name).name != name:
        raise MachineError(f"{name}: not the name of an archive that pinproof capture writes")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        yield path
