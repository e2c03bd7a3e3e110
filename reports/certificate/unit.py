"""Which unit a certificate is about: digests of the marks that tell nodes with one machine apart.

A certificate never has a serial number. It has a digest of each mark, made with a salt of its own,
so that two certificates of one node have no digest in common. Serial numbers are short and could be
guessed one by one, so a digest is made to be slow (scrypt, RFC 7914).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reports.certificate.document import Unit

#: 16 MiB and some 50 ms for each guess.
_COST: Final = {"n": 1 << 14, "r": 8, "p": 1}


def unit_of(values: Mapping[str, str], unread: Mapping[str, str]) -> Unit:
    """The unit with these marks, by name; ``unread`` says why others are missing."""
    salt = secrets.token_hex(16)
    return Unit(
        salt=salt,
        digests={name: _digest(name, value, salt) for name, value in values.items()},
        unread=dict(unread),
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """Names of the marks that agree, that differ, and that one side lacks."""

    agree: tuple[str, ...] = ()
    differ: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether something agrees and nothing differs."""
        return bool(self.agree) and not self.differ

    def __str__(self) -> str:
        """``another unit: different: machine id; equal: product serial``."""
        parts = {"different": self.differ, "equal": self.agree, "not compared": self.missing}
        said = "; ".join(f"{word}: {', '.join(names)}" for word, names in parts.items() if names)
        if not (self.agree or self.differ):
            return f"nothing could be compared: {said or 'no mark'}"
        return f"{'the same unit' if self.same else 'another unit'}: {said}"


def compared(unit: Unit, values: Mapping[str, str]) -> Compared:
    """The comparison of a certificate's unit with a node that has these marks."""
    both = [name for name in unit.digests if name in values]
    agree = [name for name in both if _digest(name, values[name], unit.salt) == unit.digests[name]]
    return Compared(
        agree=tuple(agree),
        differ=tuple(name for name in both if name not in agree),
        missing=tuple(name for name in (*unit.digests, *values) if name not in both),
    )


def _digest(name: str, value: str, salt: str) -> str:
    text = f"{name}\0{value}".encode("utf-8", "surrogateescape")
    return f"scrypt:{hashlib.scrypt(text, salt=bytes.fromhex(salt), dklen=32, **_COST).hex()}"
