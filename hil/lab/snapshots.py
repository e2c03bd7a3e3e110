"""Snapshots of guests whose kubelet is ready: a node of the same kind starts from one in seconds.

A snapshot is the disk that the guest has written, frozen, and the state of the machine beside it:
every node of it gets a disk over that disk, and a QEMU with the very same arguments reads the state
in.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hil.lab import boot, guest, places, plan, process
from hil.lab import keys as keyring
from hil.lab.accelerators import Way, kernel_words
from hil.lab.boot import Watch
from hil.lab.errors import LabError
from hil.lab.machine import INITRD, OVERLAY, PAYLOAD, arguments
from hil.lab.monitor import monitor
from hil.lab.payload import Keys
from hil.lab.plan import Plan
from hil.shell import Shell

_MEMORY: Final = "memory"
_NOTE: Final = "snapshot.json"
#: Its name in errors of its boot, too.
_DRAFT: Final = "snapshot"
_SAVING: Final = 300.0
_LOADING: Final = 120.0


class DoesNotLoad(LabError):
    """QEMU cannot read the snapshot."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot in the cache; ``accelerator`` is what it ran with, and must again."""

    folder: Path
    key: str
    accelerator: str

    @property
    def disk(self) -> Path:
        return self.folder / OVERLAY

    @property
    def size(self) -> int:
        """Bytes on the host's disk."""
        return sum(path.stat().st_blocks * 512 for path in self.folder.iterdir())


def snapshot(wanted: Plan, folder: Path, watch: Watch) -> Snapshot:
    """The snapshot of this plan, made by booting one guest if there is none: in the ``folder`` of
    the node that wants it, so that removing the node removes an unfinished one too. Raises
    :class:`LabError` where that fails; nothing runs and no file is left then."""
    key = wanted.digest[:16]
    place = places.snapshots() / key
    if found := _read(place):
        return found
    with places.made_once(f"snapshot-{key}", watch.say):
        return _read(place) or _make(wanted, place, folder / _DRAFT, watch)


def forget(which: Snapshot) -> None:
    """Remove it: it does not load."""
    (which.folder / _NOTE).unlink(missing_ok=True)
    shutil.rmtree(which.folder, ignore_errors=True)


def start(which: Snapshot, wanted: Plan, folder: Path, *, port: int, watch: Watch) -> None:
    """Start a node in ``folder`` from the snapshot; its keys are in the folder already, and are the
    guest's when this returns. Raises :class:`DoesNotLoad`, :class:`LabError`; nothing runs
    then."""
    watch.say("loading the snapshot")
    for name in (PAYLOAD, INITRD):
        (folder / name).unlink(missing_ok=True)
        plan.shared(which.folder / name, folder / name)
    plan.overlay(folder, which.disk, "qcow2")
    memory = os.open(which.folder / _MEMORY, os.O_RDONLY | os.O_CLOEXEC)
    try:
        command = arguments(
            wanted.machine,
            kernel=str(wanted.image.vmlinuz),
            port=port,
            accelerator=which.accelerator,
            incoming=memory,
            words=kernel_words(which.accelerator),
        )
        boot.launch(folder, command, pass_fds=(memory,))
        _wake(which, folder, port, watch)
    except BaseException:
        process.end(folder)
        raise
    finally:
        os.close(memory)


def _wake(which: Snapshot, folder: Path, port: int, watch: Watch) -> None:
    watch = watch.while_running(folder)
    try:
        with monitor(folder, stop=watch.stop) as talk:
            talk.loaded(deadline=_LOADING, stop=watch.stop)
    except LabError as error:
        if boot.PORT_TAKEN in str(error):
            raise
        raise DoesNotLoad(str(error), evidence=error.evidence) from error
    watch.say("it runs; giving it its own keys and time")
    own_keys = keyring.read(folder)
    snapshot_keys = keyring.read(which.folder)
    (folder / "before").mkdir(exist_ok=True)
    try:
        plan.shared(which.folder / keyring.LOGIN, folder / "before" / keyring.LOGIN)
        keyring.known(folder / "before", snapshot_keys, port=port)
        door = guest.Door(folder.name, port, folder / "before")
        with door.opened(watch.until, watch.stop) as shell:
            guest.become(shell, own_keys, folder.name)
    finally:
        shutil.rmtree(folder / "before")


def _make(wanted: Plan, place: Path, draft: Path, watch: Watch) -> Snapshot:
    watch.say("booting it once, for the snapshot")
    try:
        draft.mkdir(mode=0o700)
        way = _boot(wanted, draft, watch)
        shutil.rmtree(place, ignore_errors=True)
        draft.rename(place)
    finally:
        remove(draft)
    # Written last: without it there is no snapshot.
    (place / _NOTE).write_text(json.dumps({"key": place.name, "accelerator": way.accelerator}))
    saved = _read(place)
    assert saved is not None
    watch.say(f"the snapshot is made: {saved.size >> 20} MiB")
    return saved


def _boot(wanted: Plan, folder: Path, watch: Watch) -> Way:
    port = boot.free_port()
    way = boot_first(folder, wanted, keyring.make(folder, port=port), port, watch)
    watch = watch.while_running(folder)
    try:
        settle(guest.Door(folder.name, port, folder), wanted.machine.layout.spec, watch)
        with guest.Door(folder.name, port, folder).opened(watch.until, watch.stop) as shell:
            guest.prepare_to_sleep(shell)
        _save(folder, watch)
    finally:
        process.end(folder)
    return way


def boot_first(folder: Path, wanted: Plan, keys: Keys, port: int, watch: Watch) -> Way:
    """Boot a guest that never ran, with all that it needs in ``folder``."""
    plan.furnish(folder, wanted, keys)
    kernel = wanted.image.vmlinuz
    return boot.boot(
        folder, wanted.machine, kernel=kernel, port=port, accel=wanted.accel, watch=watch
    )


def settle(door: guest.Door, spec: str, watch: Watch) -> None:
    """Wait for a kubelet that is ready, on the machine that was asked for; raises
    :class:`LabError` where there is none."""
    with door.opened(watch.until, watch.stop) as shell:
        watch.say("waiting for the kubelet")
        require_kubelet(door.name, shell, watch)
    watch.say("comparing its machine with the description")
    if different := guest.difference(door, spec):
        raise LabError(f"{door.name}: {different}")


def require_kubelet(name: str, shell: Shell, watch: Watch) -> None:
    """Wait for a kubelet that is ready; raises :class:`LabError` where it does not stay up."""
    if reason := guest.refusal(shell, watch.until, watch.stop):
        raise LabError(f"{name}: its kubelet does not stay up: {reason}")


def _save(folder: Path, watch: Watch) -> None:
    watch.say("saving its state")
    target = os.open(folder / _MEMORY, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with monitor(folder) as talk:
            talk.save(target, deadline=_SAVING, stop=watch.stop)
            talk.call("quit")
    finally:
        os.close(target)
    if not process.gone(folder, deadline=_SAVING):
        raise LabError(f"{folder.name}: QEMU does not end")


def remove(folder: Path) -> None:
    """End what runs in ``folder``, and in the draft of a snapshot in it, and remove it."""
    for place in (folder / _DRAFT, folder):
        if place.is_dir():
            process.end(place)
            shutil.rmtree(place, ignore_errors=True)


def _read(place: Path) -> Snapshot | None:
    try:
        note = json.loads((place / _NOTE).read_text())
        found = Snapshot(place, str(note["key"]), str(note["accelerator"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if found.disk.is_file() and (place / _MEMORY).is_file() else None
