"""The frequency of the host's time-stamp counter, which an emulated CPU shows unchanged.

The kernel of a guest measures it against emulated timers while it boots. On a busy host the result
is wrong, and so is the guest's clock: one ran 5.7 times too fast, so that every timeout of a script
in the guest was too short. A kernel that is given the frequency does not measure it.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final

#: The kernel's word for it, with the frequency in kHz (Linux 5.6 and later).
WORD: Final = "tsc_early_khz"
#: ``rdtsc; shl rdx, 32; or rax, rdx; ret``
_CODE: Final = bytes.fromhex("0f31 48c1e220 4809d0 c3")
_SECONDS: Final = 0.05
_TRIES: Final = 20


@lru_cache(maxsize=1)
def kilohertz() -> int | None:
    """The frequency in kHz; ``None`` on another architecture, or without executable memory."""
    if platform.machine() != "x86_64":
        return None
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    page.write(_CODE)
    counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    ticks, began = _read_counter(counter)
    time.sleep(_SECONDS)
    later, ended = _read_counter(counter)
    return (later - ticks) * 1_000_000 // (ended - began)


def _read_counter(counter: Callable[[], int]) -> tuple[int, int]:
    """What the counter shows, and the time in nanoseconds: of several tries the one that was
    interrupted least."""
    tries = []
    for _ in range(_TRIES):
        before = time.perf_counter_ns()
        ticks = counter()
        after = time.perf_counter_ns()
        tries.append((after - before, ticks, (before + after) // 2))
    _, ticks, now = min(tries)
    return ticks, now
