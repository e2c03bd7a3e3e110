"""The records of a run: the subject, machines, results and how it ended.

What belongs here: the records, as every reader and writer has them. What never does: how they are
written to a stream (:mod:`conformance.lines`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class SubjectRecord(msgspec.Struct, kw_only=True, frozen=True):
    """The subject as a report names it (:class:`conformance.subject.SubjectInfo`)."""

    name: str
    release: str
    version: str = ""
    digest: str = ""
    facts: dict[str, str] = {}


class KnownFailure(msgspec.Struct, kw_only=True, frozen=True):
    """An entry of a list of known failures (:mod:`conformance.known`): ``scenario`` is an id,
    ``machine`` a glob of names, ``expires`` the last day (ISO 8601) that it holds. A difference
    that a fork makes on purpose has a ``name``, and may have no last day (``""``). ``differs`` is a
    part of what has to differ for a failure to be this one."""

    scenario: str
    reason: str
    expires: str
    machine: str = "*"
    link: str = ""
    name: str = ""
    differs: str = ""


class Shard(msgspec.Struct, kw_only=True, frozen=True):
    """Which part of a run a stream is: ``parts`` of ``of``, counted from 1. It is whole where all
    parts are there."""

    of: int
    parts: list[int]

    @property
    def missing(self) -> list[int]:
        """The missing parts, up to part 10,000."""
        there = set(self.parts)
        return [one for one in range(1, max(1, min(self.of, 10_000)) + 1) if one not in there]

    def __str__(self) -> str:
        """``shard 2 of 3``; ``3 shards, whole``."""
        if not self.missing:
            return f"{self.of} shards, whole"
        words = ", ".join(map(str, self.parts)) or "none"
        return f"shard{'s' if len(self.parts) != 1 else ''} {words} of {self.of}"


class NodeRecord(msgspec.Struct, kw_only=True, frozen=True):
    """What a real node's verdicts follow from, beside what was seen. ``tree`` is its captured tree:
    a tar archive packed with xz, in base64. ``config`` is the configuration that its kubelet had to
    keep (:class:`reference.steps.KubeletConfig`; ``None``: scenarios could choose one),
    ``capabilities`` are names of :class:`conformance.subject.Capability`, and ``reserved_memory``
    is what its memory manager, which stays Static, sets aside by NUMA node (empty: policy None)."""

    tree: str
    config: dict[str, Any] | None
    capabilities: list[str]
    reserved_memory: dict[int, str] = {}


class Header(msgspec.Struct, tag="header", tag_field="kind", kw_only=True, frozen=True):
    """First line: what was run, by what, where. ``started`` is ISO 8601, UTC. ``machines`` are
    names; ``digests`` are those of their trees, by name. ``environment`` is the host's (kernel,
    Python); ``configuration`` the options that decide what is run and how it is judged.
    ``catalogue`` is the digest of the scenarios, ``command`` the command line, word by word.
    ``known`` are the failures that were known before the run. ``shard``: the stream is a part of a
    run, or parts put together. ``resumed`` is when a run that was cut off went on (ISO 8601, UTC).
    ``nodes`` are the real nodes, by name.
    """

    schema: int
    pinproof: str
    subject: SubjectRecord
    started: str
    machines: list[str]
    environment: dict[str, str] = {}
    digests: dict[str, str] = {}
    configuration: dict[str, str] = {}
    catalogue: str = ""
    command: list[str] = []
    known: list[KnownFailure] = []
    shard: Shard | None = None
    resumed: list[str] = []
    nodes: dict[str, NodeRecord] = {}


class MachineRecord(msgspec.Struct, kw_only=True, frozen=True):
    """A machine: ``cpus`` maps each CPU to [NUMA node, socket, core, uncore cache], the ids the
    kubelet uses; ``digest`` is of its tree."""

    name: str
    shape: str
    digest: str
    cpus: dict[int, tuple[int, int, int, int]]


class Difference(msgspec.Struct, kw_only=True, frozen=True):
    """One thing that was not as it had to be. ``missing`` and ``unexpected`` are CPU lists, the
    difference where both sides are sets of CPUs, else ``""``."""

    what: str
    expected: str
    seen: str
    missing: str = ""
    unexpected: str = ""


class Holding(msgspec.Struct, kw_only=True, frozen=True):
    """Who holds which CPUs: ``owner`` is ``pod/container``, ``reserved`` or ``shared pool``."""

    owner: str
    cpus: str


class Moment(msgspec.Struct, kw_only=True, frozen=True):
    """Who held which CPUs after a step that changed it; ``step`` is the step in words."""

    step: str
    holdings: list[Holding]


class Failure(msgspec.Struct, kw_only=True, frozen=True):
    """Why a verdict is not ``pass``. ``rule`` is the promise or invariant that was broken;
    ``expected_holdings`` and ``seen_holdings`` are what a picture is drawn from, on ``machine``
    where the scenario had changed the result's machine by then; ``moments`` is how it came to be
    so. All three are empty where the failure is not about CPUs."""

    rule: str
    differences: list[Difference] = []
    expected_holdings: list[Holding] = []
    seen_holdings: list[Holding] = []
    moments: list[Moment] = []
    machine: MachineRecord | None = None


class Sighting(msgspec.Struct, kw_only=True, frozen=True):
    """What was seen of a real node after a step, ``at`` (ISO 8601, UTC). ``seen`` has of
    :class:`reference.view.View` and :class:`conformance.subject.Origin` what is not as it was at
    the sighting before (at first: not as in a view of nothing), CPU sets as lists; the origin's
    state file is called ``state_file_digest``."""

    step: str
    at: str
    seen: dict[str, Any]


class Observations(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """All that was seen of a real node in one scenario. The uids of its pods were made with
    ``salt``; ``larger`` is the spec of the machine that the node could be booted as, where the
    scenario asked for one."""

    sightings: list[Sighting]
    salt: str = ""
    larger: str = ""


class Result(msgspec.Struct, tag="result", tag_field="kind", kw_only=True, frozen=True):
    """One scenario on one machine. ``verdict`` is a value of :class:`Verdict`; ``steps`` are the
    steps taken, as a person reads them; ``explanation`` is the whole story as text; ``seconds``
    is wall time; ``evidence`` is log excerpts, and the kubelet's own error line where it gave up
    (also of a scenario that passes: a refusal may be what is promised). ``witness`` is what it was
    judged by, besides the promise in words: the model, or a recording of a real kubelet.
    ``file`` is the module that has the scenario, as a path in this project's repository.
    ``unable``: of a skipped scenario, that it does apply to this machine and release, and the
    subject could not, or was not allowed to, do what it takes. ``observed`` is what was seen of a
    real node: the verdict follows from it (:mod:`conformance.rejudging`)."""

    scenario: str
    title: str
    area: str
    level: str
    source: str
    source_url: str
    machine: MachineRecord
    verdict: str
    file: str = ""
    reason: str = ""
    seconds: float = 0.0
    steps: list[str] = []
    failure: Failure | None = None
    explanation: str = ""
    replay: str = ""
    evidence: str = ""
    kubelet_errors: list[str] = []
    witness: str = ""
    worker: str = ""
    unable: bool = False
    observed: Observations | None = None


class Footer(msgspec.Struct, tag="footer", tag_field="kind", kw_only=True, frozen=True):
    """Last line: counts by verdict, exit status, and when it ended. ``seconds`` are wall time, of a
    run that was resumed those of its last part. ``idle`` are the machines that
    were named and on which no scenario applied."""

    counts: dict[str, int]
    exit_status: int
    finished: str
    seconds: float
    idle: list[str] = []


Record: TypeAlias = Header | Result | Footer
