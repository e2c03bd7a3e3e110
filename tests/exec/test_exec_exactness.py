"""The comparison with the Go code itself: few differences are no news if it could not see any."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.exactness import __main__ as exactness
from benchmarks.exactness.cases import Arrive, Case, draw, dumps, loads
from benchmarks.exactness.shrink import shrink
from benchmarks.exactness.walk import End, Model
from conformance.subjects.exec import drivers

ROOT = Path(__file__).parents[2]
RELEASES = ("1.22", "1.26", "1.32", "1.36", "1.37")


@pytest.fixture
def driver(driver_path: Callable[[str], Path]) -> Iterator[exactness.Driver]:
    """The driver of 1.36."""
    made = exactness.Driver(driver_path("1.36"))
    yield made
    made.close()


@pytest.mark.parametrize("release", RELEASES)
def test_the_first_cases_have_no_difference(
    release: str, driver_path: Callable[[str], Path]
) -> None:
    made = exactness.Driver(driver_path(release))
    try:
        for number in range(25):
            case = draw(3, release, number)
            found, _ = made.compare(case)
            assert found is None, f"case {number} of seed 3\n{dumps(case)}\n{found}"
    finally:
        made.close()


def _first_difference(driver: exactness.Driver, release: str) -> Case:
    """The first case on which the model of another release differs from the driver of 1.36."""
    cases = (draw(3, release, number) for number in range(300))
    return next(case for case in cases if driver.compare(case)[0] is not None)


def test_another_release_is_seen_to_differ(driver: exactness.Driver) -> None:
    """So the comparison can fail, and what it shows can be made small and kept."""
    case = _first_difference(driver, "1.32")
    small = shrink(case, lambda one: driver.compare(one)[0] is not None, tries=60)
    found, script = driver.compare(small)
    assert found is not None
    assert found.model != found.go
    assert len(small.actions) <= len(case.actions)
    told = exactness.story(small, script, found)
    assert f"  model: {found.model}" in told
    assert "release 1.32" in told


@pytest.mark.parametrize("number", range(12))
def test_a_case_survives_being_written_down(number: int, tmp_path: Path) -> None:
    case = draw(4, "1.36", number)
    path = tmp_path / "case.json"
    path.write_text(dumps(case))
    assert loads(path) == case
    assert draw(4, "1.36", number) == case


def test_a_difference_ends_the_command_with_one_and_can_be_replayed(
    driver_path: Callable[[str], Path], tmp_path: Path
) -> None:
    path = str(driver_path("1.36"))
    saved = tmp_path / "difference.json"
    done = _run("--release", "1.32", "--driver", path, "--save", str(saved), "--cases", "300")
    assert done.returncode == 1
    assert f"replay: python -m benchmarks.exactness --replay {saved}" in done.stdout
    assert "differs at:" in done.stdout
    again = _run("--replay", str(saved), "--driver", path)
    assert again.returncode == 1
    assert again.stdout.partition("differs at:")[2] in done.stdout


def test_no_difference_ends_it_with_zero(driver_path: Callable[[str], Path]) -> None:
    done = _run("--release", "1.36", "--driver", str(driver_path("1.36")), "--cases", "20")
    assert done.returncode == 0
    assert done.stdout.startswith("1.36: 20 cases (seed 1), ")
    assert "0 differences" in done.stdout


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.exactness", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_what_is_drawn_is_what_the_page_promises() -> None:
    """Machines, options and histories of every kind, among a few hundred cases."""
    cases = [draw(1, "1.36", number) for number in range(400)]
    machines = [case.machine for case in cases]
    topologies = [machine.cpu_topology() for machine in machines]
    assert any(not one.even_cores for one in topologies)
    assert any(len(set(one.numa_masks)) > 4 for one in topologies)
    assert any(one.num_uncore_caches > one.num_numa_nodes for one in topologies)
    assert any(max(one.details) >= len(one.details) for one in topologies)
    assert any(one.num_sockets > one.num_numa_nodes for one in topologies)
    assert any(not node.cores for machine in machines for node in machine.nodes)
    options = {name for case in cases for name in case.config.policy_options}
    assert len(options) == 6
    policies = {case.config.topology_manager_policy for case in cases}
    assert policies == {"none", "best-effort", "restricted", "single-numa-node"}
    kinds = {type(action).__name__ for case in cases for action in case.actions}
    assert kinds == {"Arrive", "Leave", "Round", "Ask", "Exit", "Again", "Restart"}


def test_some_cases_end_with_a_kubelet_that_hangs(driver_path: Callable[[str], Path]) -> None:
    """The model says so and goes on; the Go code is asked whether it does, which costs it."""
    case = draw(1, "1.26", 225)
    assert Model(case).script().end is End.HANGS
    driver = exactness.Driver(driver_path("1.26"), hang_patience=1.0)
    found, _ = driver.compare(case, hangs=True)
    assert found is None
    driver.close()


def test_an_old_release_is_not_asked_for_what_it_has_not() -> None:
    case = draw(1, "1.22", 7)
    assert set(case.config.policy_options) <= {"full-pcpus-only"}
    arrivals = [one for one in case.actions if isinstance(one, Arrive)]
    assert replace(case, actions=tuple(arrivals)).release == "1.22"


def test_drivers_are_known_for_what_is_compared() -> None:
    assert str(drivers.OLDEST) == "1.22"
