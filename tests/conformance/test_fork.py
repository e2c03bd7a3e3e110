"""The file of what a fork changes on purpose, and a run that is judged with it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from conformance import fork
from conformance.fork import Fork
from conformance.known import KnownFailures, KnownFailuresError, Standing
from conformance.records import KnownFailure
from conformance.results import Difference, Failure
from reference.behaviours import Behaviour
from tests.cli.running import here
from tests.conformance.test_known import TODAY
from tests.conformance.test_known import _result as result_of

IDS: Final = ("qos/whole", "packing/whole-core")
BEHAVIOUR: Final = """\
[[behaviour]]
name = "platform-pods-on-reserved"
reason = "pods of the platform stay off the CPUs of applications"
"""
DIFFERENCE: Final = """\
[[difference]]
name = "isolcpus-left-out"
scenarios = ["qos/whole", "packing/whole-core"]
differs = "shared pool"
reason = "isolated CPUs are in no pool"
"""


def read(tmp_path: Path, text: str) -> Fork:
    path = tmp_path / "behaviours.toml"
    path.write_text(text)
    return fork.read(path, IDS)


def test_behaviours_are_on_unless_they_are_off(tmp_path: Path) -> None:
    off = (
        '[[behaviour]]\nname = "true-sizes"\non = false\nreason = "r"\nlink = "https://x.invalid"\n'
    )
    found = read(tmp_path, f'fork = "example"\n{BEHAVIOUR}{off}')
    assert found.name == "example"
    assert found.overrides == ["platform-pods-on-reserved=on", "true-sizes=off"]


def test_a_behaviour_that_the_release_has_anyway_is_told(tmp_path: Path) -> None:
    found = read(tmp_path, BEHAVIOUR + BEHAVIOUR.replace("platform-pods-on-reserved", "true-sizes"))
    assert found.idle("1.37") == []
    (line,) = found.idle("1.38")
    assert line == f"{found.path}: true-sizes: 1.38 has it anyway, remove it"
    assert Fork(behaviours={Behaviour.TRUE_SIZES: False}).idle("1.37") != []


def test_a_difference_is_an_entry_for_each_scenario_and_machine(tmp_path: Path) -> None:
    found = read(tmp_path, f'{DIFFERENCE}machines = ["1s-*", "2s-*"]\n')
    entry = KnownFailure(
        scenario="qos/whole",
        machine="1s-*",
        reason="isolated CPUs are in no pool",
        expires="",
        name="isolcpus-left-out",
        differs="shared pool",
    )
    assert found.differences[0] == entry
    assert [(one.scenario, one.machine) for one in found.differences] == [
        (scenario, machine) for scenario in IDS for machine in ("1s-*", "2s-*")
    ]


@pytest.mark.parametrize(
    ("verdict", "what", "standing"),
    [
        ("fail", "shared pool", Standing.KNOWN),
        ("fail", "exclusive CPUs a/c", Standing.FAIL),
        ("pass", "", Standing.FIXED),
    ],
    ids=["as is known", "in something else", "not any more"],
)
def test_a_difference_is_known_by_what_differs(
    tmp_path: Path, verdict: str, what: str, standing: Standing
) -> None:
    """It never expires by itself. What passes is told, and fails the run."""
    listed = KnownFailures(read(tmp_path, DIFFERENCE).differences, TODAY)
    found = result_of(verdict)
    if what:
        differences = [Difference(what=what, expected="", seen="")]
        found = replace(found, failure=Failure(rule="r", differences=differences))
    assert listed.standing(found) is standing
    assert listed.expired == []


def test_a_file_is_found_beside_the_forks_own(tmp_path: Path) -> None:
    (tmp_path / "pinning.json").write_text("{}")
    found = read(tmp_path, '[files]\n"/etc/kubernetes/pinning" = "pinning.json"\n')
    assert found.files == {"/etc/kubernetes/pinning": tmp_path / "pinning.json"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("nonsense", "not TOML"),
        ("[known]", "unknown field 'known'"),
        ("fork = 7", "fork is a text"),
        ("behaviour = 7", "behaviour is a list"),
        ("behaviour = [7]", "behaviour 1: not a table"),
        (BEHAVIOUR.replace("reason", "reasons"), "behaviour 1: unknown field 'reasons'"),
        (BEHAVIOUR.partition("reason")[0], "behaviour 1: reason is missing"),
        (BEHAVIOUR.replace("pods-on", "pod-on"), "unknown behaviour .*; did you mean"),
        (f'{BEHAVIOUR}on = "yes"', "behaviour 1: on is true or false"),
        (BEHAVIOUR * 2, "behaviour 2: platform-pods-on-reserved is listed twice"),
        (DIFFERENCE.replace("qos/whole", "qos/hole"), "1: unknown scenario 'qos/hole'; did"),
        (DIFFERENCE.replace('["qos/whole", ', "[7, "), "1: scenarios is a list of texts"),
        (f"{DIFFERENCE}machines = []", "difference 1: machines is a list of texts"),
        (f'{DIFFERENCE}expires = "soon"', "difference 1: expires is a date"),
        (DIFFERENCE.replace('name = "isolcpus-left-out"\n', ""), "difference 1: name is missing"),
        ('[files]\n"/etc/x" = 7', "files: /etc/x is the name of a file"),
        ('[files]\n"/etc/x" = "none"', "files: /etc/x: .*none: no such file"),
        ('[files]\n"etc/x" = "behaviours.toml"', "'etc/x' is not an absolute path"),
        ('[files]\n"/etc/../x" = "behaviours.toml"', "is not an absolute path"),
        ('[files]\n"/proc/x" = "behaviours.toml"', "no file can be put below /proc"),
        ('[files]\n"/var/lib/kubelet/x" = "behaviours.toml"', "below /var/lib/kubelet"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_one_line(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(KnownFailuresError, match=error) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)


def run_with(tmp_path: Path, text: str, subject: str, status: int) -> str:
    """What a run with this file of a fork's behaviours says, in one line."""
    path = tmp_path / "behaviours.toml"
    path.write_text(text)
    words = ("--subject", subject, "--behaviours", str(path), "-k", "labels/")
    done = here("run", *words, "--machine", "1s-1n-4c-smt2", "-n", "0", status=status)
    return " ".join((done.stdout + done.stderr).split())


LISTED: Final = """\
[[difference]]
name = "platform-pods"
scenarios = ["labels/whole-cpus-are-exclusive-whatever-the-labels"]
reason = "platform pods run elsewhere"
"""


FORKED: Final = "miniature:platform-pods-on-reserved"


@pytest.mark.parametrize(
    ("text", "subject", "status", "told"),
    [
        (
            BEHAVIOUR, FORKED, 0,
            ["Conformant: 3 promises kept, 3 skipped.",
             "judged by release 1.37+platform-pods-on-reserved"],
        ),
        ("", FORKED, 1, ["0 promises kept, 3 broken, 3 skipped", "the same cause"]),
        (LISTED, FORKED, 1, ["known: platform-pods (platform pods run elsewhere)", "2 broken"]),
        (LISTED, "reference", 1, ["labels/whole-cpus-are-exclusive-whatever", "Not conformant"]),
    ],
    ids=["with its file", "without", "a difference is known", "a difference is not there any more"],
)  # fmt: skip
def test_a_fork_is_judged_by_its_file(
    tmp_path: Path, text: str, subject: str, status: int, told: list[str]
) -> None:
    said = run_with(tmp_path, text, subject, status)
    assert [one for one in told if one not in said] == []
    assert text or said.count("the same cause") == 2, "one cause"
