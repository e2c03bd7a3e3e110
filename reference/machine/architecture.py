"""Which architecture a kubelet was built for.

What belongs here: the architectures that discovery tells apart, and how to tell one by a machine's
``/proc/cpuinfo``. What never does: what is different there.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final


class Architecture(Enum):
    """An architecture by the name that ``uname -m`` gives it. Discovery has rules of its own for
    s390x, and up to 1.18 for aarch64; the others share one."""

    X86_64 = "x86_64"
    AARCH64 = "aarch64"
    ARM = "arm"
    PPC64LE = "ppc64le"
    RISCV64 = "riscv64"
    S390X = "s390x"

    @classmethod
    def named(cls, text: str) -> Architecture:
        """By this name or by Go's (``amd64``, ``arm64``). Raises ``ValueError``."""
        return cls(_GO_NAMES.get(text, text))

    @classmethod
    def of_cpuinfo(cls, text: str) -> Architecture:
        """The architecture of the machine that shows this ``/proc/cpuinfo``: each kernel writes
        lines that no other has. Where none of them is found it is x86-64."""
        if _X86_LINE.search(text, 0, _FIRST_CPU):
            return cls.X86_64
        for architecture, word, line in _TELLING:
            if word in text and line.search(text):
                return architecture
        return cls.X86_64


#: A line that only x86-64 has, for the first CPU: the rest need not be searched then.
_X86_LINE: Final = re.compile(r"^cpu family[ \t]*:", re.M)
_FIRST_CPU: Final = 4096

_GO_NAMES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
# Linux: arch/{s390,powerpc,riscv}/kernel/{processor,setup-common,cpu}.c and, for both kinds of
# arm, kernel/{setup,cpuinfo}.c. Each line with a word in it, as words are found quicker.
_TELLING: Final = (
    (Architecture.S390X, "IBM/S390", re.compile(r"^vendor_id[ \t]*: IBM/S390", re.M)),
    (Architecture.PPC64LE, "revision", re.compile(r"^revision[ \t]*:.*\(pvr ", re.M)),
    (Architecture.RISCV64, "isa", re.compile(r"^isa[ \t]*: rv", re.M)),
    (Architecture.ARM, "CPU arch", re.compile(r"^CPU architecture[ \t]*: *[4-7]", re.M)),
    (
        Architecture.AARCH64,
        "CPU arch",
        re.compile(r"^CPU architecture[ \t]*: *(?:8|AArch64)", re.M),
    ),
)
