"""Promises of a node, its runtime or its vendor about exclusive CPUs, and whether they were kept.

Without a promise, a measurement is a fact and is not judged: the kubelet keeps containers off
exclusive CPUs, and nothing else
(https://kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies/).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hil.isolation.cyclictest import Wakeups
from hil.isolation.disturbance import Disturbance, Interrupt, Intruder
from hil.isolation.noise import Measured
from reference import CPUSet

#: https://github.com/cri-o/cri-o/blob/main/docs/crio.conf.5.md
IRQ_ANNOTATION: Final = "irq-load-balancing.crio.io"
_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class Judged:
    """A promise: what it is about, who made it and in which words (``claim``), and what was
    ``seen``."""

    what: str
    claim: str
    seen: str
    kept: bool


@dataclass(frozen=True, slots=True)
class Held:
    """One moment while pods come and go: the exclusive CPUs of those that asked for no interrupts,
    and where new interrupts may go."""

    cpus: CPUSet
    default: CPUSet


def tasks(found: Disturbance, isolated: CPUSet) -> Judged | None:
    """Tasks of others, where the node claims to isolate the CPUs: by ``isolcpus=`` or a cpuset
    partition. Threads of the kernel are no part of that claim: each CPU has its own. ``None``
    where the node claims nothing."""
    if found.partition:
        claim = "a cgroup of the container is an isolated cpuset partition"
    elif found.cpus <= isolated:
        claim = f"isolcpus: the kernel isolates CPUs {isolated}"
    else:
        return None
    others = [one for one in found.intruders if not one.kernel]
    return Judged("tasks of others on exclusive CPUs", claim, tasks_in_words(found), not others)


def interrupts(churn: Sequence[Held], promised: bool) -> Judged | None:
    """New interrupts while pods come and go; before and after there is none. While a pod holds
    CPUs, new interrupts keep off them; afterwards they may go where they went before. ``None``
    where the runtime did not promise it.

    The affinity of an interrupt that is there already is a fact: the kernel refuses to move those
    that it manages itself, and no file says which these are."""
    if not promised or len(churn) < 2:
        return None
    claim = f"CRI-O: the annotation {IRQ_ANNOTATION}=disable"
    what = "new interrupts on exclusive CPUs"
    for one in churn:
        if wrong := one.default & one.cpus:
            seen = f"default_smp_affinity has {wrong} while a pod holds {one.cpus}"
            return Judged(what, claim, seen, kept=False)
    before, after = churn[0].default, churn[-1].default
    if before != after:
        return Judged(
            what, claim, f"default_smp_affinity was {before} before and is {after} after", False
        )
    held = ", ".join(str(one.cpus) for one in churn if one.cpus)
    seen = f"no new interrupt may come to {held} while held; after that they may come to {before}"
    return Judged(what, claim, seen, kept=True)


def latency(measured: Iterable[Measured], wakeups: Wakeups | None, most: float) -> list[Judged]:
    """The longest gap of each container on exclusive CPUs, and the longest that cyclictest waited
    for one, against a bound in microseconds."""
    claim = f"--max-latency {most:g} us"
    found = [
        Judged(
            f"longest gap on exclusive CPUs {one.cpus}",
            claim,
            f"{one.gap:,.0f} us",
            one.gap <= most,
        )
        for one in measured
    ]
    if wakeups:
        what = "longest wake-up by cyclictest on exclusive CPUs"
        found.append(Judged(what, claim, str(wakeups), wakeups.longest <= most))
    return found


def tasks_in_words(found: Disturbance) -> str:
    """As a fact: ``3 runs at least: backup (2), [kworker/3:1] (1)``."""
    named = [f"{_name(one)} ({one.runs})" for one in found.intruders]
    counted = sum(one.runs for one in found.intruders)
    runs = counted if found.runs is None else max(found.runs, counted)
    if not runs:
        return f"none on CPUs {found.cpus}" + ("" if found.runs == 0 else " that was sampled")
    said = _few(named) or "none of them was sampled"
    return f"{runs} {'run' if runs == 1 else 'runs'} at least on CPUs {found.cpus}: {said}"


def interrupts_in_words(found: Disturbance) -> str:
    """As a fact: those of devices, by number and name."""
    devices = [one for one in found.interrupts if one.device]
    came = [f"{_irq(one)} {one.count} times" for one in devices if one.count]
    may = [_irq(one) for one in devices if one.allowed and not one.count]
    local = sum(one.count for one in found.interrupts if not one.device)
    said = [f"came to CPUs {found.cpus}: {_few(came) or 'none'}"]
    said += [f"may come: {_few(may)}"] if may else []
    said += [f"new ones may come to {both}"] if (both := found.default & found.cpus) else []
    return "; ".join([*said, f"{local} of the CPUs themselves (timer, rescheduling and the like)"])


def _name(one: Intruder) -> str:
    return f"[{one.name}]" if one.kernel else one.name


def _irq(one: Interrupt) -> str:
    return f"{one.number} ({one.name})" if one.name else one.number


def _few(texts: Sequence[str]) -> str:
    more = len(texts) - _NAMED
    return ", ".join(texts[:_NAMED]) + (f" and {more} more" if more > 0 else "")
