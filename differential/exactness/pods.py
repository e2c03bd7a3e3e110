"""Random pods.

What belongs here: pods and their resources, of containers and of pods as a whole, and what an
in-place resize may make of them. What never does: when they come and go (``drawing``).

No pod is drawn that the API's validation would refuse; the kubelet's two managers never see one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import Final

from reference.kubelet.admission import fault_of, fault_of_whole
from reference.pods.pod_level_resources import as_decoded
from reference.pods.qos import cpu_request, memory_request, qos_class, total_request
from reference.steps import Container, Kind, Pod, PodResources

_GATES: Final = {"PodLevelResources": True}
_MEBI: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """What pods of a case ask for. ``cpus``: of the machine; ``step``: most containers ask for a
    multiple of it; ``whole``: how many pods in a hundred ask for resources as a whole."""

    release: str
    cpus: int
    step: int
    whole: int


def pod(random: Random, name: str, wanted: Wanted) -> Pod:
    """A pod, most often of one container that gets CPUs of its own."""
    most = random.choice([2, 4, 4, 8, max(2, wanted.cpus // 2), wanted.cpus + 2])
    kinds = _kinds(random)
    as_whole = random.randrange(100) < wanted.whole
    draw = _part if as_whole else _container
    containers = tuple(
        draw(random, f"c{place}", kind, most, wanted.step) for place, kind in enumerate(kinds)
    )
    plain = Pod(name, containers)
    if not as_whole:
        return plain
    made = replace(plain, resources=_whole(random, plain, most))
    return made if _is_valid(made, wanted.release) else plain


def _kinds(random: Random) -> list[Kind]:
    kinds = [Kind.APP]
    if random.random() < 0.3:
        kinds += random.choices(
            [Kind.APP, Kind.INIT, Kind.INIT, Kind.SIDECAR], k=random.choice([1, 2, 3])
        )
        random.shuffle(kinds)
        kinds.sort(key=lambda kind: kind is Kind.APP)
    return kinds


def _container(random: Random, name: str, kind: Kind, most: int, step: int) -> Container:
    dice = random.random()
    if dice < 0.07:
        return Container(name, kind=kind)  # BestEffort, or it spoils the pod's class
    cpu = _oddly(random, str(_count(random, most, step)))
    if dice < 0.15:
        cpu = _milli(random, most)
    if dice < 0.20:
        return Container(name, cpu, None, "1Mi", "1Mi", kind)
    return Container(name, cpu, cpu, "1Mi", "1Mi", kind)


def _part(random: Random, name: str, kind: Kind, most: int, step: int) -> Container:
    """A container of a pod that asks for resources as a whole: more of these share CPUs."""
    dice = random.random()
    if dice < 0.30:
        return Container(name, kind=kind)
    cpu = _oddly(random, str(_count(random, max(1, most // 2), step)))
    if dice < 0.40:
        cpu = _milli(random, most)
    if dice < 0.50:
        return Container(name, cpu, random.choice([None, cpu]), "1Mi", None, kind)
    if dice < 0.55:
        return Container(name, None, cpu, None, "1Mi", kind)
    return Container(name, cpu, cpu, "1Mi", "1Mi", kind)


def _count(random: Random, most: int, step: int) -> int:
    count = random.randint(1, most)
    return count + -count % (step if step > 1 else random.choice([1, 2]))


def _oddly(random: Random, cpu: str) -> str:
    """The same amount in another form, once in a while."""
    if not cpu.isdigit() or random.random() > 0.03:
        return cpu
    return random.choice([f"{cpu}000m", f"{cpu}.0", f"{cpu}e0", f"{cpu}000000u", f"+{cpu}"])


def _milli(random: Random, most: int) -> str:
    return f"{random.randrange(100, most * 1000, 50)}m"


# -- resources of a pod as a whole -----------------------------------------------------------


def _whole(random: Random, parts: Pod, most: int) -> PodResources:
    """Resources that suffice for the containers, in one of the forms that the API allows."""
    if random.random() < 0.05:
        return PodResources()
    cpu = total_request(parts, cpu_request)
    memory = total_request(parts, memory_request)
    more_cpu = Fraction(random.choice([0, 0, 0, 2, 4, 8, 1]), 2)
    cpu += more_cpu if cpu else random.randint(1, most)
    if cpu.denominator > 1 and random.random() < 0.7:
        cpu = Fraction(-(-cpu.numerator // cpu.denominator))
    memory = max(memory, Fraction(_MEBI)) + random.choice([0, _MEBI])
    amounts = (_cpu_text(cpu), _memory_text(memory))
    more = (_cpu_text(cpu + 1), _memory_text(memory))
    requests, limits = random.choice(
        [(amounts, amounts)] * 6
        + [
            ((None, None), amounts),
            (amounts, (None, None)),
            (amounts, more),
            ((amounts[0], None), (amounts[0], None)),
            ((None, amounts[1]), (None, amounts[1])),
            ((amounts[0], None), amounts),
        ]
    )
    return PodResources(requests[0], limits[0], requests[1], limits[1])


def _cpu_text(amount: Fraction) -> str:
    milli = -(-amount.numerator * 1000 // amount.denominator)
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def _memory_text(amount: Fraction) -> str:
    return f"{-(-amount.numerator // (amount.denominator * _MEBI))}Mi"


def _is_valid(pod: Pod, release: str) -> bool:
    decoded = as_decoded(pod, _GATES, release=release)
    return not fault_of(pod) and not fault_of_whole(decoded)


# -- resizes ---------------------------------------------------------------------------------


def resized(random: Random, before: Pod, release: str) -> Pod | None:
    """The pod with other requests; ``None`` where the API would refuse those that were drawn: a
    resize changes no QoS class, and no init container that has ended."""
    changes: list[Callable[[Container], Container]] = [
        lambda one: _with_cpu(one, random.choice([1, -1, 2])),
        lambda one: _with_cpu(one, random.choice([1, -1, 2])),
        lambda one: replace(one, memory_request="2Mi", memory_limit="2Mi"),
    ]
    containers = tuple(
        random.choice(changes)(one)
        if one.kind is not Kind.INIT and one.cpu_request and one.memory_request
        else one
        for one in before.containers
    )
    after = replace(before, containers=containers)
    if containers == before.containers or not _is_valid(after, release):
        return None
    gates = _GATES if before.resources else {}
    decoded = [as_decoded(one, gates, release=release) for one in (before, after)]
    return after if qos_class(decoded[0]) == qos_class(decoded[1]) else None


def _with_cpu(one: Container, more: int) -> Container:
    text = one.cpu_request or ""
    cpu = str(max(1, int(text) + more)) if text.isdigit() else f"{1500 + 500 * more}m"
    return replace(one, cpu_request=cpu, cpu_limit=None if one.cpu_limit is None else cpu)
