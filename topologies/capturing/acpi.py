"""The firmware's table of CPUs (ACPI MADT), in a chosen order.

Linux numbers CPUs in the order in which this table names them, the boot CPU first
(``arch/x86/kernel/acpi/boot.c``); a server's firmware names first threads first. QEMU writes the
table by APIC id, so a guest that needs another order gets a table in its initramfs that replaces it
(kernel: ``Documentation/admin-guide/acpi/initrd_table_override.rst``). Besides CPUs the table has
what QEMU's q35 has: one IO-APIC, interrupts 0, 5, 9, 10 and 11 redirected, NMI on LINT1. Described
in ACPI 6.4, 5.2.12.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

#: Where the kernel looks for replacements of the firmware's tables.
PATH: Final = "kernel/firmware/acpi/madt.aml"
#: The maker of the tables. QEMU is configured with the same one: a replacement needs equal ids and
#: a newer revision. Linux uses the APICs of this maker in physical mode, however few they are
#: (``physflat_acpi_madt_oem_check``). Where APIC ids have holes, that is needed: QEMU's emulated
#: APIC loses interrupts of the logical mode behind the first hole.
OEM_ID: Final = "IBM"
OEM_TABLE_ID: Final = "EXA"
_OEM_REVISION: Final = 0x7FFF

_APIC_ADDRESS: Final = 0xFEE00000
_IO_APIC_ADDRESS: Final = 0xFEC00000
_ENABLED: Final = 1
_PC_COMPATIBLE: Final = 1
_ACTIVE_HIGH_LEVEL: Final = 0xD
_LAST_XAPIC: Final = 254


def madt(cpus: Sequence[tuple[int, int]]) -> bytes:
    """The table that names these CPUs, as (processor uid, APIC id), in this order."""
    body = struct.pack("<II", _APIC_ADDRESS, _PC_COMPATIBLE)
    body += b"".join(_cpu(uid, apic_id) for uid, apic_id in cpus)
    body += struct.pack("<BBBBII", 1, 12, 0, 0, _IO_APIC_ADDRESS, 0)
    body += struct.pack("<BBBBIH", 2, 10, 0, 0, 2, 0)
    for interrupt in (5, 9, 10, 11):
        body += struct.pack("<BBBBIH", 2, 10, 0, interrupt, interrupt, _ACTIVE_HIGH_LEVEL)
    body += struct.pack("<BBBHB", 4, 6, 0xFF, 0, 1)
    if any(apic_id > _LAST_XAPIC for _, apic_id in cpus):
        body += struct.pack("<BBHIB3x", 10, 12, 0, 0xFFFFFFFF, 1)
    return _table(b"APIC", 3, body)


def _cpu(uid: int, apic_id: int) -> bytes:
    if apic_id <= _LAST_XAPIC:
        return struct.pack("<BBBBI", 0, 8, uid, apic_id, _ENABLED)
    return struct.pack("<BBHIII", 9, 16, 0, apic_id, _ENABLED, uid)


def _table(signature: bytes, revision: int, body: bytes) -> bytes:
    """The table with its header, whose checksum makes the sum of all bytes a multiple of 256."""
    length = 36 + len(body)

    def header(checksum: int) -> bytes:
        return struct.pack(
            "<4sIBB6s8sI4sI", signature, length, revision, checksum,
            OEM_ID.encode(), OEM_TABLE_ID.encode(), _OEM_REVISION, b"PINP", 1,
        )  # fmt: skip

    return header(-sum(header(0) + body) & 0xFF) + body
