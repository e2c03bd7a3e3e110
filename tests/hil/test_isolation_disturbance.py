"""What came to exclusive CPUs beside their container, as the script prints it; what is judged."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hil.isolation import NotMeasured, cyclictest, judging
from hil.isolation.disturbance import (
    Disturbance,
    Intruder,
    mask_of,
    read_disturbance,
    script,
)
from hil.isolation.judging import Held
from hil.isolation.measuring import Measurements
from hil.isolation.noise import Measured
from hil.observation import ContainerObserved, Places
from hil.observation.seen import Level
from reference import CPUSet

CPUS = CPUSet([1])
#: A task that is the container's, one of the kernel, one that wakes up often, one that slept.
PRINTED = """\
task 0 100 50 4194560 1 7 1 sh
task 0 20 9 69238880 1 30 0 kworker/1:1
task 0 900 70 4194304 1 500 0 backup (nightly)
task 0 901 71 4194304 1 3 0 sleeper
irq 0 25 10  PCI-MSI 16385-edge virtio0-req.0
irq 0 LOC 100  Local timer interrupts
slices 0 1000
task 1 100 50 4194560 1 9 1 sh
task 1 20 9 69238880 1 31 0 kworker/1:1
task 1 900 70 4194304 1 510 0 backup (nightly)
task 1 901 71 4194304 1 3 0 sleeper
task 1 950 90 4194304 1 40 0 passes by
irq 1 25 14  PCI-MSI 16385-edge virtio0-req.0
irq 1 29 0  PCI-MSI 49153-edge virtio2-input.0
irq 1 LOC 350  Local timer interrupts
slices 1 1020
default fffd
affinity 25 0-15 1
affinity 29 1 1
affinity 30 0-1 0
partition member root
until 77.00
"""


def found(text: str = PRINTED) -> Disturbance:
    return read_disturbance(text, CPUS)


def test_tasks_of_others_have_names_and_counts() -> None:
    """One that has not run since the sample before is none; one that came meanwhile ran once."""
    assert found().intruders == (
        Intruder("backup (nightly)", 10),
        Intruder("kworker/1:1", 1, kernel=True),
        Intruder("passes by", 1),
    )
    assert found().runs == 18  # 20 time slices, two of the container's own


def test_interrupts_are_those_that_came_or_may_come() -> None:
    came = {
        one.number: (one.name, one.count, one.allowed, one.device) for one in found().interrupts
    }
    none = CPUSet()
    assert came == {
        "25": ("PCI-MSI 16385-edge virtio0-req.0", 4, CPUS, True),
        "29": ("PCI-MSI 49153-edge virtio2-input.0", 0, CPUS, True),
        "LOC": ("Local timer interrupts", 250, none, False),
    }
    assert found().default == CPUSet([0, *range(2, 16)])


@pytest.mark.parametrize(
    "text",
    [
        "",
        PRINTED.replace("until", "upto"),
        PRINTED.replace("default fffd", "x"),
        PRINTED.replace("fffd", "g"),
        PRINTED.partition("default")[0],
    ],
)
def test_half_an_answer_is_none(text: str) -> None:
    with pytest.raises(NotMeasured):
        found(text)


def test_a_kernel_that_does_not_count_says_less() -> None:
    text = "".join(f"{one}\n" for one in PRINTED.splitlines() if not one.startswith("slices"))
    assert found(text).runs is None
    quiet = "default f\nuntil 1\n"
    assert judging.tasks_in_words(found(quiet)) == "none on CPUs 1 that was sampled"
    assert judging.tasks_in_words(found(f"slices 0 5\nslices 1 5\n{quiet}")) == "none on CPUs 1"


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("3", {0, 1}), ("80000000", {31}), ("1,00000000", {32}), ("0", set()), ("", set())],
)
def test_a_mask_is_in_groups_of_32_bits(text: str, cpus: set[int]) -> None:
    assert mask_of(text) == CPUSet(cpus)


def test_facts_in_words() -> None:
    assert judging.tasks_in_words(found()) == (
        "18 runs at least on CPUs 1: backup (nightly) (10), [kworker/1:1] (1), passes by (1)"
    )
    assert judging.interrupts_in_words(found()) == (
        "came to CPUs 1: 25 (PCI-MSI 16385-edge virtio0-req.0) 4 times; may come: "
        "29 (PCI-MSI 49153-edge virtio2-input.0); 250 of the CPUs themselves (timer, rescheduling "
        "and the like)"
    )
    open_ = found(PRINTED.replace("fffd", "ffff"))
    assert "new ones may come to 1;" in judging.interrupts_in_words(open_)


def test_tasks_are_judged_only_where_the_node_claims_isolation() -> None:
    """By the kernel's command line or by a partition; threads of the kernel are no part of it."""
    assert judging.tasks(found(), CPUSet([2, 3])) is None
    one = judging.tasks(found(), CPUSet([1, 2]))
    assert one is not None
    assert (one.kept, one.claim) == (False, "isolcpus: the kernel isolates CPUs 1-2")
    assert "backup (nightly) (10)" in one.seen
    parted = judging.tasks(found(PRINTED.replace("member", "isolated")), CPUSet())
    assert parted is not None
    assert (parted.kept, "partition" in parted.claim) == (False, True)
    rows = PRINTED.splitlines(keepends=True)
    quiet = "".join(one for one in rows if "backup" not in one and "passes" not in one)
    kept = judging.tasks(found(quiet), CPUS)
    assert kept is not None
    assert (kept.kept, "[kworker/1:1] (1)" in kept.seen) == (True, True)


OPEN, SHUT = CPUSet(range(4)), CPUSet([0, 2, 3])
NONE = CPUSet()
CHURN = [Held(NONE, OPEN), Held(CPUS, SHUT), Held(NONE, OPEN), Held(CPUS, SHUT), Held(NONE, OPEN)]


def test_interrupts_are_judged_only_where_the_runtime_promised() -> None:
    """CRI-O keeps the annotation in what it starts the container with; containerd never does."""
    assert judging.interrupts(CHURN, promised=False) is None
    assert found(PRINTED + "promised\n").promised
    assert not found().promised
    kept = judging.interrupts(CHURN, promised=True)
    assert kept is not None
    assert kept.kept


@pytest.mark.parametrize(
    ("place", "wrong", "seen"),
    [
        (1, Held(CPUS, OPEN), "default_smp_affinity has 1 while a pod holds 1"),
        # https://github.com/cri-o/cri-o/issues/9227: the pod before is given back late.
        (3, Held(CPUS, OPEN), "default_smp_affinity has 1 while a pod holds 1"),
        (4, Held(NONE, SHUT), "default_smp_affinity was 0-3 before and is 0,2-3 after"),
    ],
)
def test_an_affinity_that_a_deletion_leaves_wrong_is_broken(
    place: int, wrong: Held, seen: str
) -> None:
    judged = judging.interrupts([*CHURN[:place], wrong, *CHURN[place + 1 :]], promised=True)
    assert judged is not None
    assert (judged.kept, judged.seen) == (False, seen)


def _noise(name: str, gap: float) -> Measured:
    return Measured(name, "1", gap, 0.0, 0, 1.0)


def test_a_stated_bound_is_judged_for_exclusive_cpus_alone() -> None:
    noise = (_noise("exclusive", 120.4), _noise("shared", 9000.0))
    measured = Measurements(1.0, 10.0, noise, found(), NONE)
    assert measured.judged(0) == []
    (kept,) = measured.judged(121)
    (broken,) = measured.judged(120)
    assert (kept.kept, broken.kept) == (True, False)
    assert (broken.claim, broken.seen) == ("--max-latency 120 us", "120 us")


#: What cyclictest 2.4 prints at its end.
CYCLIC = """\
# /dev/cpu_dma_latency set to 0us
T: 0 (  812) P:80 I:1000 C:   1998 Min:      3 Act:    5 Avg:    6 Max:      41
"""


def test_cyclictest_is_read_and_judged_where_it_is() -> None:
    found_ = cyclictest.read_wakeups(CYCLIC, CPUS)
    assert found_ == cyclictest.Wakeups(cpu=1, count=1998, average=6, longest=41)
    assert str(found_) == "longest 41 us, average 6 us, of 1998 wake-ups on CPU 1"
    measured = Measurements(1.0, 10.0, (_noise("exclusive", 5.0),), found(), NONE, wakeups=found_)
    assert [one.kept for one in measured.judged(41)] == [True, True]
    gap, wakeups = measured.judged(40)
    assert (gap.kept, wakeups.kept) == (True, False)
    assert wakeups.seen.startswith("longest 41 us")


@pytest.mark.parametrize("text", ["", "Could not lock memory\n", CYCLIC.replace("1998", "0")])
def test_without_cyclictest_nothing_is_said(text: str) -> None:
    assert cyclictest.read_wakeups(text, CPUS) is None


def test_the_script_runs_here(tmp_path: Path) -> None:
    """Below any kernel: it names a task that is pinned, and not the sampler. Other tests run awk,
    too, so the sampler's has a name of its own."""
    (tmp_path / "own-sampler").symlink_to(str(shutil.which("awk")))
    cpu = min(os.sched_getaffinity(0))
    pinned = subprocess.Popen(["sh", "-c", "while :; do sleep 0.01; done"], start_new_session=True)
    try:
        os.sched_setaffinity(pinned.pid, [cpu])
        place = ContainerObserved("abc", 1 << 22, "u", "c", (Level("/none", None, CPUSet([cpu])),))
        places = Places("k", "", "", "", 2, "/sys/fs/cgroup", "/sys/fs/cgroup", (), "")
        text = script(places, place, CPUSet(os.sched_getaffinity(0)), samples=3)
        text = f'awk() {{ {tmp_path}/own-sampler "$@"; }}\n{text}'
        done = subprocess.run(
            ["setsid", "-w", "sh", "-c", text], capture_output=True, text=True, check=False
        )
    finally:
        pinned.kill()
        pinned.wait()
    seen = read_disturbance(done.stdout, CPUSet([cpu]))
    assert "sh" in [one.name for one in seen.intruders], done.stderr
    assert "own-sampler" not in [one.name for one in seen.intruders]
    assert seen.default
