"""One kubelet and one driver of 1.36.4 that hold all faults of a list, built and kept.

They are kept in ``$XDG_CACHE_HOME/pinproof/named-faults/VERSION-LIST/``: the module, and where
the programs are. Where the list of faults has changed, they are made again: of the rest the Go
toolchain keeps what it has compiled.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from conformance.kubelets.golang import Go
from conformance.kubelets.releases import Version
from conformance.progress import Progress
from differential.command import key_of
from differential.mutants import planting
from differential.mutants.programs import KUBELETS, Built
from differential.named_faults import faults
from differential.named_faults.faults import Fault
from topologies.user_cache import cache_folder

#: The release whose source the faults are written for.
RELEASE: Final = Version(1, 36, 4)


def programs(progress: Progress | None = None, listed: Path = faults.FAULTS) -> Built:
    """The programs with the faults as they are in the list; those of the named faults hold the
    slips as well. Raises :class:`conformance.subject.SubjectSetupError` where the source has no
    place for a fault."""
    folder = cache_folder("named-faults") / f"{RELEASE}-{listed.stem}"
    note = folder / "key"
    tell = progress or (lambda stage: None)
    every = [
        *faults.known_faults(listed),
        *(faults.known_slips() if listed == faults.FAULTS else ()),
    ]
    with KUBELETS.lock(RELEASE, tell):
        if not note.is_file() or note.read_text() != _key(every):
            tell(f"planting {listed.stem} in {RELEASE}")
            shutil.rmtree(folder, ignore_errors=True)
            _plant(every, folder / "module")
            note.write_text(_key(every))
    return Built(RELEASE, folder)


def _key(every: Sequence[Fault]) -> str:
    """Stands for the changes of the source and their switch."""
    edits = [(one.name, one.edit) for one in every]
    return key_of([msgspec.json.encode(edits), faults.SWITCH_SOURCE.read_bytes()])


def _plant(every: Sequence[Fault], folder: Path) -> None:
    module = planting.module_folder(Go.find(), RELEASE)
    sources = faults.sources(every, lambda path: (module / path).read_text())
    planting.copy_module(module, sources, folder)
