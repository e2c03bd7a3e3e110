"""What identifies a node among those with the same machine, and how its firmware sets its CPUs.

What belongs here: values as the node has them. What never does: writing or printing them; a
certificate has digests of them (:mod:`reports.certificate.unit`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from hil.inspection.script import NoRecords, Records, marks_question
from hil.shell import NodeUnfit, Shell
from reference import CPUSet
from topologies.errors import one_line

_CPUS: Final = "/sys/devices/system/cpu"
#: Files by the name of what they hold. Linux, ``drivers/firmware/dmi-id.c``: root alone may read
#: serial numbers; machine-id(5); sshd(8).
_MARKS: Final = {
    "SSH host key (ed25519)": "/etc/ssh/ssh_host_ed25519_key.pub",
    "SSH host key (ecdsa)": "/etc/ssh/ssh_host_ecdsa_key.pub",
    "SSH host key (rsa)": "/etc/ssh/ssh_host_rsa_key.pub",
    "machine id": "/etc/machine-id",
    "product serial": "/sys/class/dmi/id/product_serial",
    "product uuid": "/sys/class/dmi/id/product_uuid",
    "board serial": "/sys/class/dmi/id/board_serial",
}
#: Linux, ``Documentation/ABI/testing/sysfs-devices-system-cpu``.
_SETTINGS: Final = {
    "SMT control": f"{_CPUS}/smt/control",
    "intel_pstate": f"{_CPUS}/intel_pstate/status",
    "amd_pstate": f"{_CPUS}/amd_pstate/status",
}
#: What vendors write where a serial number should be; in lower case, without blanks and dots.
_NO_SERIAL: Final = frozenset({
    "", "0", "none", "null", "na", "n/a", "notspecified", "notapplicable", "notavailable",
    "tobefilledbyoem", "defaultstring", "systemserialnumber", "baseboardserialnumber", "unknown",
    "0123456789", "123456789", "03000200-0400-0500-0006-000700080009",
})  # fmt: skip
NOT_THERE, NOT_READABLE = "not there", "not readable"


@dataclass(frozen=True, slots=True)
class Marks:
    """``values`` are the marks by name; ``unread`` says of the others why there is none.
    ``settings`` are those of firmware and kernel for CPUs, also ``"not there"`` and ``"not
    readable"``."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    unread: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


def marks(shell: Shell, *, root: str = "") -> Marks:
    """Ask the node, in one round trip. ``root`` is where its ``/`` lies. Raises
    :class:`hil.shell.NodeUnfit` for what is no answer, and what the shell raises."""
    question = marks_question(root, files=[*_MARKS.values(), *_SETTINGS.values()])
    done = shell.run(question.script)
    try:
        answer = question.read(done.stdout)
    except NoRecords as error:
        why = one_line(str(error))
        raise NodeUnfit(f"{shell.name}: its answer cannot be read: {why}") from error
    values = {name: _mark(_value(answer, path)) for name, path in _MARKS.items()}
    unread = {name: _why(answer, _MARKS[name]) for name, value in values.items() if not value}
    settings = {
        name: one_line(_value(answer, path)) or _why(answer, path)
        for name, path in _SETTINGS.items()
    }
    return Marks(
        {name: value for name, value in values.items() if value},
        unread,
        {**settings, "governor": _governors(answer)},
    )


def _value(answer: Records, path: str) -> str:
    return answer.text(path, "file").strip()


def _mark(text: str) -> str:
    """A key without its comment, or a serial number; ``""`` for what is neither."""
    value = " ".join(text.split()[:2]) if text.startswith(("ssh-", "ecdsa-")) else text
    plain = "".join(value.lower().split()).replace(".", "")
    same = len(set(plain) - {"-"}) < 2  # 0000…, FFFF…
    return "" if plain in _NO_SERIAL or same else value


def _why(answer: Records, path: str) -> str:
    if answer.text(path, "unread"):
        return NOT_READABLE
    return "names no unit" if _value(answer, path) else NOT_THERE


def _governors(answer: Records) -> str:
    """``performance``, or ``performance (0-3), powersave (4-7)``."""
    found: dict[str, list[int]] = {}
    for cpu, name in _by_cpu(answer):
        found.setdefault(name, []).append(cpu)
    if len(found) < 2:
        return next(iter(found), NOT_THERE)
    return ", ".join(f"{name} ({CPUSet(cpus)})" for name, cpus in sorted(found.items()))


def _by_cpu(answer: Records) -> Iterator[tuple[int, str]]:
    for line in answer.lines("governors"):
        path, _, name = line.partition("=")
        number = path.rpartition("/cpufreq/")[0].rpartition("/cpu")[2]
        if number.isascii() and number.isdigit() and len(number) < 6:
            yield int(number), one_line(name)
