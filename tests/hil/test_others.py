"""What somebody else does on a node is told apart from what its kubelet does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from hil.observation import Observation, ServiceState
from hil.safety import RemoveFile, SetOnline, WriteFile
from hil.session.others import Others
from reference import CPUSet

SOCKET: Final = "/run/containerd/containerd.sock"
CONFIG: Final = "/var/lib/kubelet/config.yaml"
UP: Final = Observation(
    online=CPUSet.parse("0-3"),
    service=ServiceState(active="active", pid=812, invocation="first"),
    state_file="{}",
    boot="b00t",
    files={CONFIG: "17 420 1000", SOCKET: "23 0 900"},
)


def others() -> Others:
    made = Others(SOCKET)
    assert made.deed(UP) == ""
    assert made.deed(UP) == ""
    return made


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (
            replace(UP, state_file=None),
            "the state file was removed by another hand: the kubelet runs on as process 812, and a "
            "kubelet does not remove it",
        ),
        (
            replace(UP, online=CPUSet.parse("0-2")),
            "CPU 3 was taken offline by another hand: 0-2 are online",
        ),
        (
            replace(UP, online=CPUSet.parse("0-5")),
            "CPUs 4-5 were brought online by another hand",
        ),
        (replace(UP, boot="an0ther"), "the node was booted by another hand: it has a new boot id"),
        (
            replace(UP, files={**UP.files, SOCKET: "24 0 1100"}),
            f"the container runtime was restarted by another hand: {SOCKET} is another one",
        ),
        (
            replace(UP, files={CONFIG: UP.files[CONFIG]}),
            f"the container runtime was stopped by another hand: {SOCKET} is gone",
        ),
        (
            replace(UP, files={**UP.files, CONFIG: "17 421 1100"}),
            f"{CONFIG} was changed by another hand",
        ),
        (replace(UP, files={SOCKET: UP.files[SOCKET]}), f"{CONFIG} was removed by another hand"),
    ],
)
def test_a_deed_of_another_hand_is_named(seen: Observation, said: str) -> None:
    assert others().deed(seen) == said


@pytest.mark.parametrize(
    ("own", "seen"),
    [
        (lambda one: one.will([SetOnline(3, False)]), replace(UP, online=CPUSet.parse("0-2"))),
        (
            lambda one: one.will([WriteFile(CONFIG, b"")]),
            replace(UP, files={**UP.files, CONFIG: "18 1 1100"}),
        ),
        (
            lambda one: one.will([RemoveFile(CONFIG)]),
            replace(UP, files={SOCKET: UP.files[SOCKET]}),
        ),
        (
            lambda one: one.restarts_runtime(),
            replace(UP, files={**UP.files, SOCKET: "24 0 1100"}),
        ),
        (
            lambda one: one.boots(),
            replace(UP, boot="next", online=CPUSet.parse("0-7"), files={SOCKET: "1 0 1"}),
        ),
    ],
)
def test_what_this_run_does_is_no_deed_of_another(
    own: Callable[[Others], None], seen: Observation
) -> None:
    made = others()
    own(made)
    assert made.deed(seen) == ""
    assert made.deed(seen) == ""


@pytest.mark.parametrize(
    "service",
    [
        ServiceState(active="inactive"),
        ServiceState(active="active", pid=900, invocation="second"),
    ],
)
def test_a_kubelet_that_starts_without_a_state_file_is_judged(service: ServiceState) -> None:
    """A run removes the file while the kubelet is down; and one that ends is the scenario's."""
    assert others().deed(replace(UP, service=service, state_file=None)) == ""


def test_what_lasts_is_named_each_time_and_a_restart_once() -> None:
    made = others()
    gone = replace(UP, state_file=None)
    assert made.deed(gone) == made.deed(gone) != ""
    offline = replace(UP, online=CPUSet.parse("0-2"))
    assert made.deed(offline) == made.deed(offline) != ""
    assert made.deed(UP) == ""
    restarted = replace(UP, files={**UP.files, SOCKET: "24 0 1100"})
    assert made.deed(restarted) != ""
    assert made.deed(restarted) == ""
