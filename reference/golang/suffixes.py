"""How a whole quantity is written (``CanonicalizeBytes``, ``k8s.io/apimachinery``)."""

from __future__ import annotations


def written(number: int, *, binary: bool = False) -> str:
    """A whole quantity as the kubelet writes it: with the largest suffix
    that leaves it whole, a ``binary`` one where a part of it had one."""
    base, last = (1024, "i") if binary else (1000, "")
    suffixes = ["", *(f"{letter}{last}" for letter in ("K" if binary else "k") + "MGTPE")]
    step = 0
    while number and number % base == 0 and step < len(suffixes) - 1:
        number, step = number // base, step + 1
    return f"{number}{suffixes[step]}"
