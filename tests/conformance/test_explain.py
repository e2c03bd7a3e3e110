"""The texts of a failure, which are the product."""

from __future__ import annotations

from conformance.accounts import as_expected
from conformance.checks import cpu_difference
from conformance.explain import Story, explanation, replay_command, undecided
from conformance.results import Difference, Failure
from conformance.scenario import Scenario, Source
from conformance.subject import SubjectInfo
from reference import CPUSet

SCENARIO = Scenario(
    id="packing/whole-core",
    title="A request takes one whole physical core",
    source=Source("KEP-3570", "https://example.org/kep"),
    body=lambda node: None,
)
STORY = Story(
    scenario=SCENARIO,
    subject=SubjectInfo("kubelet:./my kubelet", "1.36", "v1.36.3", "sha256:" + "0123456789ab" * 5),
    machine="1s-1n-4c-smt2",
    totals="8 CPUs (0-7), 4 physical cores, 1 NUMA node, 1 socket",
    steps=["start the kubelet", "apply Guaranteed pod a (c: 2 CPU)"],
    witness="the model of 1.36",
    release="1.36",
)
FAILURE = Failure(
    rule="The CPUs are one whole physical core",
    differences=[
        cpu_difference("exclusive CPUs a/c", CPUSet([1, 5]), CPUSet([1, 2])),
        Difference(what="kubelet", expected="runs", seen="gave up: no"),
    ],
)


def test_an_explanation_tells_the_whole_story() -> None:
    """To the letter: this is what a person reads at three in the morning."""
    assert (
        explanation(STORY, FAILURE, evidence="E0101 one\nE0101 two")
        == """\
packing/whole-core on 1s-1n-4c-smt2: the promise is broken

  scenario  A request takes one whole physical core
            KEP-3570
            https://example.org/kep
  subject   kubelet:./my kubelet (v1.36.3, sha256:0123456789ab)
  machine   1s-1n-4c-smt2: 8 CPUs (0-7), 4 physical cores, 1 NUMA node, 1 socket
  steps
    1. start the kubelet
    2. apply Guaranteed pod a (c: 2 CPU)   <-- here
  promised  The CPUs are one whole physical core
  but       exclusive CPUs a/c: 1-2, not 1,5
    exclusive CPUs a/c
      expected    1,5
      seen        1-2
      missing     5
      unexpected  2
    kubelet
      expected    runs
      seen        gave up: no
  judged by the model of 1.36
  replay
    pinproof run --subject 'kubelet:./my kubelet' --machine 1s-1n-4c-smt2 -k packing/whole-core
  log
    E0101 one
    E0101 two"""
    )


def test_no_text_of_a_failure_reads_as_its_opposite() -> None:
    """What was promised and what was seen are told apart, and a node that only differs from the
    model has broken no promise."""
    runs = Difference(what="kubelet", expected="gives up", seen="runs")
    text = explanation(STORY, Failure(rule="The kubelet refuses to start", differences=[runs]))
    assert "  promised  The kubelet refuses to start\n  but       the kubelet ran\n" in text
    rule = as_expected("start the kubelet", "the model of 1.36")
    pool = cpu_difference("shared pool", CPUSet([1]), CPUSet([2]))
    text = explanation(STORY, Failure(rule=rule, differences=[pool]))
    assert text.splitlines()[0].endswith(": the node differs from the model of 1.36")
    assert (
        "  differs   No promise in words is broken, but after the step “start the kubelet” "
        "the node differs from the model of 1.36\n" in text
    )
    assert "promised" not in text
    assert "is as the model" not in text


def test_what_could_not_be_told_says_why() -> None:
    """And never that a promise is broken."""
    text = undecided(STORY, "the kubelet hangs", evidence="last line")
    assert text.splitlines()[0] == "packing/whole-core on 1s-1n-4c-smt2: could not tell"
    assert "  reason    the kubelet hangs" in text
    assert "    last line" in text
    assert "broken" not in text


def test_the_replay_command_is_a_shell_command() -> None:
    """A scenario about a machine of its own names none; another release is named."""
    own = Scenario(
        id="a/b", title="", source=SCENARIO.source, body=SCENARIO.body, machine="1s-1n-4c-smt1"
    )
    story = Story(own, SubjectInfo("reference", "1.36"), "1s-1n-4c-smt1", "", (), release="1.35")
    assert replay_command(story) == "pinproof run --subject reference --release 1.35 -k a/b"
