"""The machines that QEMU emulates: one for each architecture, with what a guest on it needs.

x86 has two serial lines: one for the data, one for the kernel's messages. The others have one,
which firmware and kernel share with the data until the guest is up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from topologies.capturing import acpi


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """``program`` is QEMU's, of the Debian package ``package``; ``machine`` is QEMU's name of the
    machine, ``cpu`` the default processor. The guest writes the data to its device ``data``, and
    the kernel's messages to ``console``. ``debian`` is Debian's name of the architecture,
    ``kernels`` are packages that depend on its newest kernel."""

    program: str
    package: str
    machine: str
    cpu: str
    data: str
    console: str
    debian: str
    kernels: tuple[str, ...]

    @property
    def shares_line(self) -> bool:
        """Whether one serial line carries the kernel's messages and the data."""
        return self.data == self.console


X86: Final = Board(
    program="qemu-system-x86_64",
    package="qemu-system-x86",
    machine=f"q35,hpet=off,x-oem-id={acpi.OEM_ID},x-oem-table-id={acpi.OEM_TABLE_ID}",
    cpu="Skylake-Server",
    data="ttyS0",
    console="ttyS1",
    debian="amd64",
    # Debian's small flavour, then Ubuntu's.
    kernels=("linux-image-cloud-amd64", "linux-image-virtual", "linux-image-amd64"),
)

#: By the architecture's name in a spec.
BOARDS: Final = {
    "": X86,
    "arm64": Board(
        program="qemu-system-aarch64",
        package="qemu-system-arm",
        machine="virt,gic-version=3",
        cpu="max",
        data="ttyAMA0",
        console="ttyAMA0",
        debian="arm64",
        kernels=("linux-image-cloud-arm64", "linux-image-arm64", "linux-image-virtual"),
    ),
    # The emulator lacks this machine's mitigations of speculation, and would warn of that.
    "ppc64": Board(
        program="qemu-system-ppc64",
        package="qemu-system-ppc",
        machine="pseries,cap-cfpc=broken,cap-sbbc=broken,cap-ibs=broken,cap-ccf-assist=off",
        cpu="power10",
        data="hvc0",
        console="hvc0",
        debian="ppc64el",
        kernels=("linux-image-powerpc64le", "linux-image-generic"),
    ),
    "s390x": Board(
        program="qemu-system-s390x",
        package="qemu-system-misc",
        machine="s390-ccw-virtio",
        cpu="max",
        data="ttysclp0",
        console="ttysclp0",
        debian="s390x",
        kernels=("linux-image-s390x", "linux-image-generic"),
    ),
}
