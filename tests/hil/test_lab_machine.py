"""A lab node as QEMU's command line."""

from __future__ import annotations

import platform
import re

import pytest

from hil.lab import tsc
from hil.lab.accelerators import kernel_words
from hil.lab.errors import LabUsageError
from hil.lab.initramfs import initramfs
from hil.lab.machine import arguments, machine


def _value(words: list[str] | tuple[str, ...], option: str) -> str:
    return words[words.index(option) + 1]


def test_a_description_becomes_sockets_cores_and_threads() -> None:
    shape = machine("2s-2n-8c-smt2").shape
    assert _value(shape, "-smp") == "cpus=16,maxcpus=16,sockets=2,dies=1,cores=4,threads=2"
    assert _value(shape, "-m") == "2048M"
    sizes = [word for word in shape if word.startswith("memory-backend-ram")]
    assert sizes == [f"memory-backend-ram,id=m{node},size=1024M" for node in (0, 1)]


@pytest.mark.parametrize("spec", ["1s-1n-4c-smt1", "2s-4n-64c-smt2", "1s-2n-6c-smt1"])
def test_the_backends_sum_up_to_the_memory(spec: str) -> None:
    """QEMU refuses anything else."""
    shape = machine(spec, memory=3000).shape
    sizes = [int(size) for size in re.findall(r"size=(\d+)M", " ".join(shape))]
    assert _value(shape, "-m") == f"{sum(sizes)}M"
    assert sum(sizes) >= 3000


def test_many_cpus_get_more_memory() -> None:
    """The kernel and the kubelet want some for each."""
    assert machine("2s-2n-64c-smt2").memory > machine("2s-2n-8c-smt2").memory == 2048


def test_qemu_s_own_options_are_a_machine_too() -> None:
    even = machine("-smp 4,sockets=2").shape
    assert _value(even, "-m") == "2048M"
    odd = machine(
        "-smp 2 -m 3072M -object memory-backend-ram,id=a,size=1024M -numa node,memdev=a,cpus=0 "
        "-object memory-backend-ram,id=b,size=2048M -numa node,memdev=b,cpus=1"
    ).shape
    assert "memory-backend-ram,id=a,size=1024M" in odd
    assert _value(odd, "-m") == "3072M"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("2s-", "not a lab machine"),
        ("nonsense", "not a lab machine"),
        ("-smp 4 -drive file=/etc/shadow", "-drive"),
    ],
)
def test_what_is_no_machine_is_refused_in_one_line(spec: str, said: str) -> None:
    with pytest.raises(LabUsageError, match=re.escape(said)) as caught:
        machine(spec)
    assert "\n" not in str(caught.value)


def test_too_little_memory_is_refused() -> None:
    with pytest.raises(LabUsageError, match="256 MiB are too few"):
        machine("2s-2n-8c-smt2", memory=256)


def test_the_cgroup_version_is_the_kernel_s_word() -> None:
    assert "systemd.unified_cgroup_hierarchy=0" in machine("1s-1n-4c-smt1", cgroup=1).kernel_words
    assert "systemd.unified_cgroup_hierarchy=1" in machine("1s-1n-4c-smt1").kernel_words


def test_a_kernel_boots_on_one_cpu_and_the_first_program_brings_the_rest() -> None:
    assert "maxcpus=1" in machine("2s-2n-8c-smt2").kernel_words.split()
    words = machine("-smp 4,threads=2 -nosmt").kernel_words.split()
    assert "nosmt" in words
    assert "maxcpus=1" not in words
    made = initramfs(b"busybox", {})
    assert b"for cpu in /sys/devices/system/cpu/cpu[0-9]*/online; do\n  echo 1 >$cpu" in made


def test_the_kernel_s_own_work_stays_with_the_services() -> None:
    assert "irqaffinity=0-1" in machine("1s-1n-4c-smt1").kernel_words.split()
    made = initramfs(b"busybox", {})
    assert b"echo 3 >/sys/devices/virtual/workqueue/cpumask" in made
    assert b'taskset -p 3 "${task#/proc/}"' in made


def test_only_this_host_gets_in_and_nothing_gets_out() -> None:
    words = arguments(machine("1s-1n-4c-smt1"), kernel="/k", port=7, accelerator="tcg")
    network = _value(words, "-netdev")
    assert "hostfwd=tcp:127.0.0.1:7-:22" in network
    assert "restrict=on" in network


def test_a_snapshot_is_loaded_into_the_very_same_machine() -> None:
    """Anything else crashes QEMU."""
    wanted = machine("2s-2n-8c-smt2")
    fresh = arguments(wanted, kernel="/k", port=1, accelerator="tcg")
    loaded = arguments(wanted, kernel="/k", port=1, accelerator="tcg", incoming=9)
    assert loaded == [*fresh, "-incoming", "fd:9"]


def test_the_kernel_is_told_how_fast_the_counter_runs() -> None:
    """KVM tells it itself. A kernel that measures on a busy host had a clock 5.7 times too fast."""
    assert kernel_words("kvm") == ()
    rate = tsc.kilohertz()
    assert kernel_words("tcg,thread=multi") == (() if rate is None else (f"tsc_early_khz={rate}",))
    wanted = machine("1s-1n-4c-smt1")
    words = arguments(wanted, kernel="/k", port=1, accelerator="tcg", words=("tsc_early_khz=5",))
    assert _value(words, "-append") == f"{wanted.kernel_words} tsc_early_khz=5"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="NOT TESTED: no time-stamp counter")
def test_the_counter_s_rate_is_measured_alike_again() -> None:
    first = tsc.kilohertz()
    tsc.kilohertz.cache_clear()
    second = tsc.kilohertz()
    assert first is not None
    assert second is not None
    assert abs(first - second) * 1000 < first
