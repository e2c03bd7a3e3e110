from __future__ import annotations

import os
import threading

import pytest

from conformance.kubelets.klog import Log, gave_up_because, is_error, message, unquote

STRUCTURED = (
    'E1121 09:54:57.771366      25 kubelet.go:1821] "Failed to start ContainerManager" '
    'err="start cpu manager error: current set of available CPUs \\"0-63\\" doesn\'t match '
    'with CPUs in state \\"0-31\\""'
)
PLAIN = (
    "F1121 09:54:57.771366      25 kubelet.go:1380] Failed to start ContainerManager start cpu "
    "manager error: could not initialize checkpoint manager: checkpoint is corrupted"
)
OTHER = 'E1121 09:54:57.1 25 run.go:72] "command failed" err="failed to run Kubelet: no\\tway"'


#: Up to 1.17, whose static policy panics.
FAULT = (
    "E1121 09:54:57.771366      25 policy_static.go:126] [cpumanager] static policy invalid "
    "state: default cpuset cannot be empty"
)
PANIC = "panic: [cpumanager] - please drain node and remove policy state file"
OTHER_CPUS = 'current set of available CPUs "0-63" doesn\'t match with CPUs in state "0-31"'


@pytest.mark.parametrize(
    ("quoted", "text"),
    [
        ("plain", "plain"),
        (r"a \"b\" c", 'a "b" c'),
        (r"tab\tnewline\n", "tab\tnewline\n"),
        (r"back\\slash", "back\\slash"),
        (r"\\n is not a newline", "\\n is not a newline"),
        (r"\x7f\u00e9\U0001f600", "\x7f\xe9\U0001f600"),
    ],
)
def test_quotes_of_go_are_undone(quoted: str, text: str) -> None:
    assert unquote(quoted) == text


@pytest.mark.parametrize(
    ("lines", "errors", "reason"),
    [
        ([], [STRUCTURED], OTHER_CPUS),
        ([], [PLAIN], "could not initialize checkpoint manager: checkpoint is corrupted"),
        ([], [FAULT, PANIC], "default cpuset cannot be empty"),
        ([], [PANIC], PANIC),
        ([], [STRUCTURED, OTHER], OTHER_CPUS),
        (["I am last"], [OTHER], "failed to run Kubelet: no\tway"),
        (["first", "unknown flag: --pods", " "], [], "unknown flag: --pods"),
        ([], [], ""),
    ],
    ids=[
        "structured", "plain", "before a panic", "a panic alone", "what was said after it",
        "the last error", "the last line", "silence",
    ],
)  # fmt: skip
def test_the_cpu_managers_own_error_outranks_all_else(
    lines: list[str], errors: list[str], reason: str
) -> None:
    """Also the panic of the static policy of 1.17 at a bad state (docs/facts 5.8). Without it the
    last error counts, and without any the last line."""
    assert gave_up_because(lines, errors) == reason


@pytest.mark.parametrize(
    ("line", "yes"),
    [
        (STRUCTURED, True),
        (PLAIN, True),
        ("panic: runtime error: index out of range", True),
        ("I1121 09:54:57.7 25 kubelet.go:18] Everything is fine", False),
        ("Error: unknown flag", False),
        ("", False),
    ],
)
def test_error_lines_are_told_from_others(line: str, yes: bool) -> None:
    assert is_error(line) is yes
    assert message("unknown flag: --x") == "unknown flag: --x", "it has no header"


def logged(*parts: bytes) -> Log:
    ours, theirs = os.pipe()
    rung = threading.Event()
    log = Log(os.fdopen(ours, "rb"), rung.set)
    with os.fdopen(theirs, "wb") as stream:
        for part in parts:
            stream.write(part)
    log.finish()
    assert rung.is_set()
    return log


def test_a_log_is_bounded_but_keeps_early_errors() -> None:
    log = logged(STRUCTURED.encode() + b"\n", b"I am noise\n" * 100_000, b"last\n")
    lines = log.excerpt().splitlines()
    assert lines[0] == STRUCTURED
    assert lines[1] == "…"
    assert lines[-1] == "last"
    assert len(lines) < 60
    assert log.gave_up_because().startswith("current set")


def test_lines_of_the_cpu_manager_outlast_what_others_say() -> None:
    """A node without a network says so every second."""
    told = b'I1121 11:15:11.5 2 policy_static.go:202] "Reserved CPUs not available" reserved="0"\n'
    log = logged(told, b'I1121 11:15:12.5 2 kubelet.go:18] "Something else"\n' * 1000, b"last\n")
    assert log.excerpt().encode().splitlines()[0] + b"\n" == told


@pytest.mark.parametrize(
    "text",
    [
        '"Pod status updated" pod="default/p"',
        '"Failed to set some node status fields" err="can\'t get ip address of node pinproof."',
        '"Eviction manager: failed" err="cannot find filesystem info for device"',
        '"Failed to stat container log after reopen" err="stat c/0.log"',
    ],
)
def test_what_the_harness_causes_and_a_sandbox_lacks_is_left_out(text: str) -> None:
    line = f"E1121 11:15:11.5 2 kubelet_node_status.go:673] {text}\n".encode()
    assert logged(line * 3, b"last\n").excerpt() == "last"


def test_a_line_without_end_is_cut() -> None:
    log = logged(b"x" * 5_000_000)
    assert max(map(len, log.excerpt().splitlines())) <= 16_384


@pytest.mark.parametrize("letter", ["x", "ü"])
def test_the_pieces_of_a_long_line_are_joined(letter: str) -> None:
    long = letter * 20_000
    assert logged(f"{long}\nlast\n".encode()).lines() == [long, "last"]


def test_bytes_that_are_no_text_do_no_harm() -> None:
    assert logged(b"\xff\xfe\n").excerpt() == "\ufffd\ufffd"


def test_the_settings_in_effect_outlast_what_the_managers_say() -> None:
    """A pod of several containers makes 1.36 write some fifty lines of its managers."""
    created = (
        b'I1121 11:15:11.4 2 container_manager_linux.go:278] "Creating Container Manager object '
        b'based on Node Config" nodeConfig={"CPUManagerPolicy":"static"}\n'
    )
    reserved = (
        b'I1121 11:15:11.5 2 policy_static.go:202] "Reserved CPUs not available for exclusive '
        b'assignment" reservedSize=1 reserved="0"\n'
    )
    told = b'I1121 11:15:12.5 2 policy_static.go:709] "AllocateCPUs" pod="default/a"\n'
    log = logged(created, reserved, told * 1000, b"last\n")
    assert log.in_effect() == "policy static, reservedSystemCPUs 0"


@pytest.mark.parametrize(
    "line",
    [
        b'I1128 09:03:35.3 14 kubelet.go:2709] "SyncLoop ADD" source="api" pods=[]\n',
        b'I1128 09:03:35.3 14 kubelet.go:1836] SyncLoop (ADD, "api"): ""\n',
    ],
    ids=["structured", "up to 1.20"],
)
def test_which_sources_of_pods_were_listed(line: bytes) -> None:
    other = line.replace(b"ADD", b"UPDATE")
    assert not logged(other).has_listed("api")
    log = logged(other, line)
    assert log.has_listed("api")
    assert not log.has_listed("file")
