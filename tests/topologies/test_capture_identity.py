"""No capture tells one machine from its twins."""

from __future__ import annotations

import pytest

from topologies.capturing.scope import is_file
from topologies.identity import without_identity


@pytest.mark.parametrize(
    ("text", "blank", "fields"),
    [
        # ARM boards, arch/arm/kernel/setup.c
        ("Serial\t\t: 100000003d1f4b2a\n", "Serial\t\t: 0000000000000000\n", ("Serial",)),
        # s390 before and after 4.15, arch/s390/kernel/processor.c
        (
            "processor 0: version = 00,  identification = 279F25,  machine = 2817\n",
            "processor 0: version = 00,  identification = 000000,  machine = 2817\n",
            ("identification",),
        ),
        ("ident           : 279F25\n", "ident           : 000000\n", ("ident",)),
        # Alpha, arch/alpha/kernel/setup.c
        (
            "system serial number\t: AY-1234\n",
            "system serial number\t: 00-0000\n",
            ("system serial number",),
        ),
    ],
)
def test_identities_become_zeros_of_the_same_form(
    text: str, blank: str, fields: tuple[str, ...]
) -> None:
    assert without_identity(text) == (blank, fields)


def test_each_field_is_named_once_and_zeros_are_no_identity() -> None:
    assert without_identity("Serial : a1\nSerial : b2\n")[1] == ("Serial",)
    assert without_identity("Serial\t\t: 0000000000000000\n")[1] == ()


@pytest.mark.parametrize(
    "text",
    [
        "flags\t\t: fpu serialize tsc\nphysical id\t: 3\n",
        "machine\t\t: CHRP IBM,9179-MHB\nmodel name\t: Intel(R) Xeon(R)\n",
        "processor\t: 12\ncore id\t\t: 7\nRevision\t: d03114\n",
    ],
)
def test_everything_else_stays(text: str) -> None:
    assert without_identity(text) == (text, ())


def test_serial_numbers_in_sysfs_are_not_in_scope() -> None:
    assert not is_file("sys/devices/system/cpu/cpu0/topology/ppin")
    assert is_file("sys/devices/system/cpu/cpu0/topology/core_id")
