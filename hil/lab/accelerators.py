"""How a guest's CPUs are run: by the host's, where that works, else emulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hil.lab import tsc
from hil.lab.errors import LabUsageError
from topologies.capturing.qemu import has_kvm

AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class Way:
    """One way: QEMU's word for it, its name in messages, and the seconds within which the guest's
    kernel must run, with those for each CPU."""

    accelerator: str
    name: str
    patience: float
    patience_per_cpu: float

    def wait(self, cpus: int) -> float:
        return self.patience + self.patience_per_cpu * cpus


#: ``/dev/kvm`` may be there and the guest still never start: it gets a few seconds.
KVM: Final = Way("kvm", "KVM", 8, 0.2)
#: A kernel runs after 5 s on an idle host. The threads of many CPUs seldom wait for each other for
#: ever.
TCG: Final = Way("tcg,thread=multi", "emulation", 30, 1.5)
TCG_AGAIN: Final = Way("tcg,thread=multi", "emulation, once more", 90, 3)
#: No thread can wait for another, and everything takes at least twice as long.
TCG_ONE: Final = Way("tcg,thread=single", "emulation in one thread", 240, 6)


def ways(accel: str = AUTO) -> tuple[Way, ...]:
    """What to try, in order; ``accel`` is ``auto``, ``kvm`` or ``tcg``."""
    if accel == "kvm":
        return (KVM,)
    if accel == "tcg":
        return TCG, TCG_AGAIN, TCG_ONE
    if accel != AUTO:
        raise LabUsageError(f"accel is auto, kvm or tcg, not {accel!r}")
    return (KVM, TCG, TCG_AGAIN, TCG_ONE) if has_kvm() else (TCG, TCG_AGAIN, TCG_ONE)


def kernel_words(accelerator: str) -> tuple[str, ...]:
    """Words that give the guest's kernel the frequency of its clock, which it would measure wrongly
    on a busy host. KVM gives it the frequency by itself."""
    rate = None if accelerator == KVM.accelerator else tsc.kilohertz()
    return () if rate is None else (f"{tsc.WORD}={rate}",)
