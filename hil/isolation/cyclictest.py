"""Wake-up latency by cyclictest, where a node has that program (package ``rt-tests``).

It runs beside the container, on the container's CPU, while the container sleeps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from reference import CPUSet

#: One thread on one CPU, at real-time priority, for two seconds; ``timeout`` where it hangs.
_SCRIPT: Final = r"""
if command -v cyclictest >/dev/null 2>&1; then
  timeout -k 1 20 cyclictest -q -m -t 1 -p 80 -i 1000 -a @CPU@ -D 2 </dev/null 2>&1
fi
"""
#: ``T: 0 (  812) P:80 I:1000 C:   2000 Min:      3 Act:    5 Avg:    6 Max:      41``
_LINE: Final = re.compile(
    r"^T: *\d+ .* C: *(\d{1,12}) Min: *(\d{1,12}) .*Avg: *(\d{1,12}) Max: *(\d{1,12})", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Wakeups:
    """``count`` wake-ups on one CPU; ``average`` and ``longest`` latency in microseconds."""

    cpu: int
    count: int
    average: int
    longest: int

    def __str__(self) -> str:
        return (
            f"longest {self.longest} us, average {self.average} us, of {self.count} wake-ups on "
            f"CPU {self.cpu}"
        )


def script(cpus: CPUSet) -> str:
    """Prints nothing where there is no cyclictest."""
    return _SCRIPT.replace("@CPU@", str(min(cpus)))


def read_wakeups(text: str, cpus: CPUSet) -> Wakeups | None:
    """``None`` where there is no cyclictest, or it measured nothing."""
    found = _LINE.search(text)
    if found is None or not int(found[1]):
        return None
    return Wakeups(min(cpus), int(found[1]), int(found[3]), int(found[4]))
