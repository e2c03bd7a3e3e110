"""What a node sends is read strictly: nothing of it is trusted, nothing is lost unsaid."""

from __future__ import annotations

import pytest

from topologies import Link
from topologies.capturing import CaptureError
from topologies.capturing.captured import captured
from topologies.capturing.stream import MAX_STREAM, BrokenStream, read_stream

CPU = "sys/devices/system/cpu"
FREQ = f"{CPU}/cpu0/cpufreq"
LINK = "lrwxrwxrwx 1 0 0 0 Nov 21 09:34"
WHOLE = f"""\
pinproof-capture 1
kernel 6.1.0
arch x86_64
F {CPU}/online
 0-1
F {CPU}/cpu0/topology/core_id
 0
L
 {LINK} sys/devices/system/node/node0/cpu0 -> ../../cpu/cpu0
end
"""


def stream(*lines: str) -> bytes:
    return "\n".join(["pinproof-capture 1", *lines, "end", ""]).encode()


def test_files_and_links_are_kept_as_they_are() -> None:
    received = read_stream(WHOLE.encode())
    assert received.entries == {
        f"{CPU}/online": "0-1\n",
        f"{CPU}/cpu0/topology/core_id": "0\n",
        "sys/devices/system/node/node0/cpu0": "../../cpu/cpu0",
    }
    assert isinstance(received.entries["sys/devices/system/node/node0/cpu0"], Link)
    assert (received.kernel, received.arch, received.unreadable) == ("6.1.0", "x86_64", [])
    assert read_stream(stream("kernel 6.1; rm -rf", "arch \x1b[2J")).kernel == "unknown"


def test_greetings_carriage_returns_and_nul_bytes_change_nothing() -> None:
    noisy = b"Welcome to the node!\r\n\r\n" + WHOLE.replace("\n", "\r\n").encode() + b"logout\r\n"
    assert read_stream(noisy).entries == read_stream(WHOLE.encode()).entries
    holed = read_stream(WHOLE.replace(" 0-1", " 0-1\0\0").encode())
    assert holed.entries == read_stream(WHOLE.encode()).entries
    assert holed.nul_bytes


def test_lines_keep_blanks_and_bytes_that_are_no_text() -> None:
    sent = stream("F proc/cpuinfo", " flags\t:  a ", " ", "  x").replace(b" a ", b" \xff ")
    assert read_stream(sent).entries["proc/cpuinfo"] == "flags\t:  \udcff \n\n x\n"


def test_files_without_text_and_those_named_unreadable_are_left_out() -> None:
    sent = stream(f"F {CPU}/present", f"F {CPU}/online", " 0", f"X {CPU}/possible")
    received = read_stream(sent)
    assert received.entries == {f"{CPU}/online": "0\n"}
    assert received.unreadable == [f"{CPU}/present", f"{CPU}/possible"]


@pytest.mark.parametrize(
    "path",
    [
        "etc/shadow", "/etc/shadow", "../../etc/cron.d/x", f"{CPU}/../../../../etc/x",
        f"{CPU}/cpu0/topology/ppin", f"{CPU}/cpu0/crash_notes", f"{CPU}/cpu0x/topology/core_id",
        f"{CPU}/vulnerabilities/../../x", "proc/cpuinfo/x", "proc/self/environ",
    ],
)  # fmt: skip
def test_what_no_capture_holds_is_passed_over(path: str) -> None:
    received = read_stream(stream(f"F {path}", " secret", f"F {CPU}/online", " 0"))
    assert received.entries == {f"{CPU}/online": "0\n"}


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", "it sent nothing"),
        (b"\n\r\n", "it sent nothing"),
        (b"sh: not found\n", "it sent something other than a capture: 'sh: not found'"),
        (b"\x1b[31mred\n", r"it sent something other than a capture: '\x1b[31mred'"),
        (WHOLE.encode()[:80], "the capture is cut off: it ends in the middle"),
        (stream("E it has no awk"), "it has no awk"),
        (stream(" lost"), "refused: a line outside of a file: 'lost'"),
        (stream("what"), "refused: not a line of a capture: 'what'"),
        (stream(f"F {CPU}/online", " 0", f"F {CPU}/online", " 1"), f"refused: {CPU}/online twice"),
        *(
            (stream("L", f" {LINK} {out}"), f"refused: a link out of the tree: {out}")
            for out in (f"{CPU}/cpu0/node0 -> /etc", f"{CPU}/cpu0/node0 -> {'../' * 7}etc")
        ),
        (
            stream("L", f" {LINK} {FREQ} -> ../x", f"F {FREQ}/cpuinfo_max_freq", " 1"),
            f"refused: {FREQ} is a link and a folder",
        ),
    ],
)
def test_what_is_no_capture_is_refused_in_a_line(sent: bytes, said: str) -> None:
    with pytest.raises(BrokenStream) as caught:
        read_stream(sent)
    assert str(caught.value) == said


def test_a_stream_has_a_bound() -> None:
    with pytest.raises(BrokenStream, match="it sent more than 128 MiB"):
        read_stream(bytes(MAX_STREAM + 1))


# --- captures made of it ---------------------------------------------------------------------


def test_a_capture_says_where_from_and_no_host_name() -> None:
    made = captured(WHOLE.encode(), where="ssh://root@secret", source="captured over SSH")
    assert made.source == "captured over SSH, Linux 6.1.0, x86_64"
    assert made.tree[f"{CPU}/online"] == "0-1\n"


def test_half_a_capture_is_an_error_that_counts_what_could_not_be_read() -> None:
    without_cpus = stream(f"X {CPU}/online", f"X {CPU}/present")
    with pytest.raises(CaptureError) as caught:
        captured(without_cpus, where="ssh://node", source="")
    assert str(caught.value) == (
        f"cannot capture ssh://node: incomplete capture: {CPU}/online is missing or empty "
        "(2 files could not be read)"
    )
    without_topology = stream(f"F {CPU}/online", " 0-3")
    with pytest.raises(CaptureError, match="no CPU has a topology folder"):
        captured(without_topology, where="ssh://node", source="")
    with pytest.raises(CaptureError, match="not a CPU list: 'many'"):
        captured(stream(f"F {CPU}/online", " many"), where="x", source="")


def test_what_was_left_out_is_said() -> None:
    sent = WHOLE.replace("end\n", f"X {CPU}/smt/control\nF proc/cpuinfo\n Serial\t: 00ab\nend\n")
    made = captured(sent.replace("0-1", "0-1\0").encode(), where="x", source="")
    assert made.left_out == (
        f"{CPU}/smt/control: could not be read",
        "proc/cpuinfo: Serial identifies the machine: written as zeros",
        "NUL bytes, which no text file of the kernel holds",
    )
    assert made.tree["proc/cpuinfo"] == "Serial\t: 0000\n"


def test_contradictions_of_the_tree_are_warnings_and_bounded() -> None:
    made = captured(WHOLE.encode(), where="x", source="")
    assert any("cpu1/topology/core_id: missing for an online CPU" in one for one in made.warnings)
    many = WHOLE.replace("0-1", "0-99")
    warnings = captured(many.encode(), where="x", source="").warnings
    assert len(warnings) == 9
    assert warnings[-1].endswith("more contradictions in the tree")
