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
    """One way: QEMU's word for it, ours, and within how many seconds the guest's kernel must run,
    given its CPUs."""

    accelerator: str
    name: str
    patience: float
    patience_per_cpu: float

    def wait(self, cpus: int) -> float:
        return self.patience + self.patience_per_cpu * cpus


#: ``/dev/kvm`` may be there and the guest still never say a word: it gets a few seconds.
KVM: Final = Way("kvm", "KVM", 8, 0.2)
#: A kernel runs after 5 s where the host has nothing else to do. The threads of many CPUs may wait
#: for each other for ever, though seldom.
TCG: Final = Way("tcg,thread=multi", "emulation", 30, 1.5)
TCG_AGAIN: Final = Way("tcg,thread=multi", "emulation, once more", 90, 3)
#: No thread waits for another, and all that takes twice as long and more.
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
    """What the guest's kernel is told of its clock where it would else measure it, and be wrong on
    a busy host. KVM tells it itself."""
    rate = None if accelerator == KVM.accelerator else tsc.kilohertz()
    return () if rate is None else (f"{tsc.WORD}={rate}",)
