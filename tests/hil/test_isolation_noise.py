"""Scheduling noise, as the measuring script prints it."""

from __future__ import annotations

import re

import pytest

from hil.isolation import NotMeasured, cyclictest, disturbance, read_noise, script
from hil.isolation.latency import read_latency
from hil.isolation.latency import script as latency_script
from hil.observation import ContainerObserved, Places
from hil.observation.script import look
from hil.observation.seen import Level
from reference import CPUSet

PLACES = Places("k", "/s", "", "", 2, "/cg", "/cg", (), "")
PRINTED = """first 0 1000 5
first 1 50000 100
sample 0 1000
sample 1 60000
sample 0 3000
sample 1 9060000
last 0 3000 5
last 1 9061000 140
cpus 0 2
cpus 1 0-1,3-15
time 100.00 101.50
"""


def test_noise_is_the_largest_step_of_the_waiting_time() -> None:
    """In microseconds; the kernel counts nanoseconds."""
    alone, shared = read_noise(PRINTED, ["exclusive", "shared"])
    assert (alone.name, alone.cpus, alone.gap, alone.waited) == ("exclusive", "2", 2.0, 2.0)
    assert (alone.involuntary, alone.seconds) == (0, 1.5)
    assert (shared.gap, shared.waited, shared.involuntary) == (9000.0, 9011.0, 40)


@pytest.mark.parametrize(
    "text",
    ["", PRINTED.replace("last 1", "lost 1"), PRINTED.replace("time", "tame"), "first 0 x y"],
)
def test_half_a_measurement_is_none(text: str) -> None:
    """A container that ended meanwhile has no last word."""
    with pytest.raises(NotMeasured):
        read_noise(text, ["exclusive", "shared"])


def test_the_script_has_the_pids() -> None:
    one = ContainerObserved(id="x", pid=42, uid="u", name="it's; reboot", levels=())
    assert "pin_pids=42:0" in script([one])
    assert "reboot" not in script([one])


def test_latency_is_of_the_cgroup_that_names_cpus() -> None:
    """The runtime crun puts a container's tasks one cgroup deeper, where nothing is asked for."""
    levels = (
        Level("/kubepods/podu/x/container", CPUSet(), CPUSet([0, 1])),
        Level("/kubepods/podu/x", CPUSet([0, 1]), CPUSet([0, 1])),
        Level("/kubepods/podu", CPUSet(), CPUSet([0, 1])),
    )
    shared = ContainerObserved(id="x", pid=42, uid="u", name="shared", levels=levels)
    assert "lat_file=/cg/kubepods/podu/x/cpuset.cpus" in latency_script(PLACES, shared)


def _defined(text: str) -> set[str]:
    """Variables and functions that a script sets, ``read``'s too."""
    words = [name for line in re.findall(r"\bread -r ([a-z_ ]+)", text) for name in line.split()]
    return {*re.findall(r"\b([a-z_]+)(?:=|\(\))", text), *words}


@pytest.mark.parametrize("name", ["noise", "latency", "disturbance", "cyclictest"])
def test_what_measures_leaves_alone_what_a_look_uses(name: str) -> None:
    """Such a script runs inside of a look, whose variables and functions it would change."""
    levels = (Level("/kubepods/podu/x", CPUSet([1]), CPUSet([1])),)
    one = ContainerObserved(id="x", pid=42, uid="u", name="shared", levels=levels)
    text = {
        "noise": script([one]),
        "latency": latency_script(PLACES, one),
        "disturbance": disturbance.script(PLACES, one, CPUSet(range(4))),
        "cyclictest": cyclictest.script(CPUSet([1])),
    }[name]
    whole = look(PLACES, "m")
    settings = set(re.findall(r"^(pin_[a-z]+)=", whole.partition("LC_ALL=C")[0], re.MULTILINE))
    functions = set(re.findall(r"^(pin_[a-z]+)\(\)", whole, re.MULTILINE))
    assert {"pin_was", "pin_unit"} <= settings
    assert "pin_tasks" in functions
    assert not _defined(text) & (settings | functions)


def test_latency_is_from_the_state_file_to_the_cpuset() -> None:
    assert read_latency("noise\nlatency 100.00 101.25 0-7 0,2-7\n") == pytest.approx(1.25)


@pytest.mark.parametrize("text", ["", "latency 1 2 0-7 0-7", "latency x y 0 1", "latency 1 2"])
def test_where_nothing_changed_there_is_no_latency(text: str) -> None:
    """A container that keeps its cpuset for ever has none."""
    with pytest.raises(NotMeasured):
        read_latency(text)
