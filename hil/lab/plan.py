"""The plan of a node: machine, image, kubelet and settings; and the files that follow from it."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.kubelets.configuration import file_text
from hil.lab import housekeeping, initramfs, names, payload, runtime, tools, tsc
from hil.lab import kubelet as kubelets
from hil.lab.image import Image
from hil.lab.kubelet import Kubelet
from hil.lab.machine import INITRD, OVERLAY, PAYLOAD, Machine
from hil.lab.names import NODE_NAME
from hil.lab.payload import Keys
from hil.lab.workload import workload
from topologies.capturing import acpi


@dataclass(frozen=True, slots=True)
class Plan:
    """All that decides how a fresh node is. ``settings`` are of KubeletConfiguration, the user's
    own over the lab's; ``accel`` is the user's word, ``oci`` the runtime below containerd."""

    machine: Machine
    image: Image
    kubelet: Kubelet
    settings: Mapping[str, Any] = field(default_factory=dict)
    accel: str = "auto"
    oci: str = runtime.DEFAULT

    @property
    def unit(self) -> str:
        return kubelets.unit_text(self.kubelet.release, NODE_NAME)

    @property
    def configuration(self) -> str:
        return file_text(self._settings)

    @property
    def containerd(self) -> str:
        """The runtime's configuration, of the kubelet's cgroup driver."""
        return runtime.configuration(self.oci, self._settings.get("cgroupDriver", "cgroupfs"))

    @property
    def _settings(self) -> dict[str, Any]:
        return kubelets.configuration(self.kubelet.release, self.settings)

    @property
    def digest(self) -> str:
        """The digest of all that a saved guest depends on: QEMU and its arguments, disk, files."""
        texts = (
            tools.run([tools.QEMU, "--version"], deadline=30),
            self.accel,
            self.image.digest,
            self.kubelet.digest,
            self.unit,
            self.configuration,
            self.containerd,
            *self.machine.shape,
            self.machine.kernel_words,
            tsc.WORD,
            repr(names.files(NODE_NAME)),
            repr(housekeeping.files()),
        )
        hasher = hashlib.sha256(initrd(self.machine, self.image))
        for text in texts:
            hasher.update(text.encode() + b"\0")
        return hasher.hexdigest()


def initrd(machine: Machine, image: Image) -> bytes:
    """The initramfs that the machine boots."""
    layout = machine.layout
    modules = {name: (image.folder / "modules" / name).read_bytes() for name in image.modules}
    return initramfs.initramfs(
        image.busybox.read_bytes(),
        modules,
        offline=layout.offline,
        table=acpi.madt(layout.table) if layout.table else b"",
    )


def furnish(folder: Path, plan: Plan, keys: Keys) -> None:
    """Write the files that a first boot in ``folder`` needs."""
    data = payload.payload(
        kubelet=plan.kubelet.path.read_bytes(),
        unit=plan.unit,
        configuration=plan.configuration,
        containerd=plan.containerd,
        workload=workload(plan.image.busybox.read_bytes()),
        keys=keys,
        hostname=NODE_NAME,
    )
    _write(folder / PAYLOAD, data)
    _write(folder / INITRD, initrd(plan.machine, plan.image))
    overlay(folder, plan.image.disk, "raw")


def overlay(folder: Path, below: Path, form: str) -> None:
    """Make the node's disk: writes go to a file of its own, ``below`` stays as it is."""
    (folder / OVERLAY).unlink(missing_ok=True)
    command = [tools.QEMU_IMG, "create", "-q", "-f", "qcow2", "-b", str(below), "-F", form, OVERLAY]
    tools.run(command, deadline=60, cwd=folder)


def shared(source: Path, target: Path) -> None:
    """Link ``source`` as ``target``; copy it where the file system cannot link."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _write(place: Path, data: bytes) -> None:
    place.write_bytes(data)
    place.chmod(0o600)
