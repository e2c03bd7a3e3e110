"""Sets of CPUs, the values that everything in the model is made of.

A set is one int: bit ``n`` is CPU ``n``. Every operation of set algebra is then one integer
operation, which is what lets the model judge millions of steps. The text form is the kubelet's
(``k8s.io/utils/cpuset``; before 1.28 ``pkg/kubelet/cm/cpuset``), which is the Linux list format
minus most of its features.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from reference.behaviours import Behaviour
from reference.golang.strconv import NotANumber, atoi, go_quote
from reference.releases import NEWEST, AnyRelease, has

#: A CPU id above this is refused by :meth:`CPUSet.parse`. The kubelet has no bound but memory: it
#: would build every element. Linux stops at 8192 CPUs; a set is one int here, so a wild id in a
#: damaged file would cost its size in bits.
MAX_CPU: Final = 1 << 20


_PIECE: Final = 4096
_PIECE_MASK: Final = (1 << _PIECE) - 1


class CPUSetParseError(ValueError):
    """A text is no CPU list; ``str()`` is the kubelet's own text for it."""


class CPUSetTooWide(CPUSetParseError):
    """An id lies above :data:`MAX_CPU`. The kubelet would read it, so this is not its text."""


class CPUSet:
    """An immutable, hashable set of CPU ids (non-negative ints).

    Iteration, ``str()`` and comparison of texts go by ascending id. ``|``, ``&``, ``-`` and ``^``
    give new sets; ``<=``, ``<``, ``>=`` and ``>`` are subset tests, as for ``frozenset``.
    """

    __slots__ = ("mask",)

    #: The set as an int: bit ``n`` is CPU ``n``.
    mask: int

    def __init__(self, cpus: Iterable[int] = ()) -> None:
        mask = 0
        for cpu in cpus:
            mask |= 1 << cpu
        _set_mask(self, mask)

    @classmethod
    def of_mask(cls, mask: int) -> CPUSet:
        """The set whose bits are ``mask``; a negative mask is no set and raises ``ValueError``."""
        if mask < 0:
            raise ValueError(f"a CPU mask is not negative: {mask}")
        made = _new(cls)
        _set_mask(made, mask)
        return made

    @classmethod
    def parse(cls, text: str, *, release: AnyRelease = NEWEST) -> CPUSet:
        """Read the text form, ``"0-3,8"``, as the kubelet of ``release`` does.

        Raises :class:`CPUSetParseError` with that kubelet's text for what its parser refuses
        (blanks, empty pieces, since 1.22 a range that runs backwards), and for ids that no
        machine has. Source: ``cpuset.go`` (``Parse``), 1.17 to 1.37.
        """
        mask = 0
        if not text:
            return cls.of_mask(0)
        for piece in text.split(","):
            first, dash, last = piece.partition("-")
            if not dash:
                mask |= _bits(_cpu_id(first), None, text)
                continue
            if "-" in last and not has(release, Behaviour.STRICT_RANGES):
                continue
            low, high = _cpu_id(first), _cpu_id(last)
            if low <= high:
                mask |= _bits(low, high, text)
            elif has(release, Behaviour.STRICT_RANGES):
                sign = ">" if has(release, Behaviour.RANGE_TEXT_GREATER) else ">="
                raise CPUSetParseError(f"invalid range {go_quote(piece)} ({low} {sign} {high})")
        return cls.of_mask(mask)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a CPUSet is immutable")

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return CPUSet.of_mask, (self.mask,)

    def __str__(self) -> str:
        """The kubelet's text form: ascending, runs of two and more as ``a-b``."""
        mask, pieces, start = self.mask, [], 0
        while mask:
            gap = (mask & -mask).bit_length() - 1
            mask >>= gap
            start += gap
            run = (~mask & (mask + 1)).bit_length() - 1
            pieces.append(str(start) if run == 1 else f"{start}-{start + run - 1}")
            mask >>= run
            start += run
        return ",".join(pieces)

    def __repr__(self) -> str:
        return f"CPUSet.parse({str(self)!r})"

    def __iter__(self) -> Iterator[int]:
        # Piece by piece: each step below costs the length of what it works on.
        rest, start = self.mask, 0
        while rest:
            mask = rest & _PIECE_MASK if rest > _PIECE_MASK else rest
            while mask:
                low = mask & -mask
                yield start + low.bit_length() - 1
                mask ^= low
            rest >>= _PIECE
            start += _PIECE

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    def __contains__(self, cpu: object) -> bool:
        return isinstance(cpu, int) and cpu >= 0 and bool(self.mask >> cpu & 1)

    def __eq__(self, other: object) -> bool:
        return self.mask == other.mask if isinstance(other, CPUSet) else NotImplemented

    def __hash__(self) -> int:
        return hash((CPUSet, self.mask))

    def __or__(self, other: CPUSet) -> CPUSet:
        return _made(self.mask | other.mask)

    def __and__(self, other: CPUSet) -> CPUSet:
        return _made(self.mask & other.mask)

    def __sub__(self, other: CPUSet) -> CPUSet:
        return _made(self.mask & ~other.mask)

    def __xor__(self, other: CPUSet) -> CPUSet:
        return _made(self.mask ^ other.mask)

    def __le__(self, other: CPUSet) -> bool:
        return self.mask & ~other.mask == 0

    def __lt__(self, other: CPUSet) -> bool:
        return self.mask != other.mask and self <= other

    def __ge__(self, other: CPUSet) -> bool:
        return other <= self

    def __gt__(self, other: CPUSet) -> bool:
        return other < self

    def isdisjoint(self, other: CPUSet) -> bool:
        """Whether the two sets share no CPU."""
        return self.mask & other.mask == 0


# Bound once: making sets is most of what the model does.
_new: Final = object.__new__
_set_mask: Final = CPUSet.__dict__["mask"].__set__


def _made(mask: int) -> CPUSet:
    """The set of a mask that is known not to be negative."""
    made = _new(CPUSet)
    _set_mask(made, mask)
    return made


def _cpu_id(text: str) -> int:
    try:
        return atoi(text)
    except NotANumber as error:
        raise CPUSetParseError(str(error)) from error


def _bits(low: int, high: int | None, text: str) -> int:
    last = low if high is None else high
    if low < 0 or last > MAX_CPU:
        raise CPUSetTooWide(f"no machine has the CPUs of {go_quote(text)}")
    return (1 << last + 1) - (1 << low)
