"""The certificate's form: an in-toto Statement v1 with a test-result predicate.

Both are public (https://in-toto.io/Statement/v1, https://in-toto.io/attestation/test-result/v0.1);
what they have no field for is below ``pinproof``. The JSON Schema beside this module is made from
these types (:mod:`reports.certificate.schema`).

A certificate has one form only: the bytes that :func:`encode` writes. It holds a digest of itself,
so a changed byte shows. Only a signature shows who wrote it.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

#: The version of the facts below ``pinproof``; a reader refuses a newer one.
SCHEMA: Final = 5
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://in-toto.io/attestation/test-result/v0.1"
#: Bytes that are read of a certificate.
LARGEST: Final = 16 << 20

#: ``none``: no required scenario was run; ``not-restored``: no promise is broken, and the node was
#: not left as it was found.
Verdict: TypeAlias = Literal["success", "partial", "none", "not-restored", "failure"]
#: The outcome of one scenario.
Outcome: TypeAlias = Literal["pass", "fail", "unknown", "not-run", "skip"]
#: The outcome of an upgrade on the node.
UpgradeOutcome: TypeAlias = Literal["kept", "broken", "unknown"]
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^(sha256:[0-9a-f]{64})?$")]
Level: TypeAlias = Literal["core", "extended"]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class CertificateError(Exception):
    """A file is not a certificate; ``str()`` is one line without the file's name."""


class Record(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A JSON object of which every field is known."""


class Descriptor(Record, kw_only=True, frozen=True):
    """A thing by name and digest, as in-toto has it. ``digest`` is hexadecimal, by algorithm."""

    name: str
    digest: dict[str, str]


class Suite(Record, kw_only=True, frozen=True):
    """What judged: the version of pinproof, the digest of its scenarios and their number, and what
    judged beside each promise in words, with how many results."""

    pinproof: str
    catalogue: Digest
    scenarios: Count
    witnesses: dict[str, Count] = {}


class Machine(Record, kw_only=True, frozen=True):
    """The machine. ``digest`` is of its captured files, as in the result stream;
    ``hardware_digest`` is of those without memory, so it is equal for all nodes with the same
    hardware, and after each boot. ``processor`` and ``microcode`` as its kernel names them;
    ``threads_per_core`` is 1 without SMT; ``memory`` is in bytes, ``memory_by_node`` by NUMA node.
    ``places`` maps each CPU to [NUMA node, socket, physical core, uncore cache]. A ``described``
    machine is made of the totals that name it: it has no processor, no microcode and no memory."""

    name: str
    described: bool = False
    digest: Digest
    hardware_digest: Digest
    processor: str
    microcode: str
    sockets: Count
    numa_nodes: Count
    cores: Count
    cpus: Count
    threads_per_core: Count
    uncore_caches: Count
    memory: Count
    memory_by_node: dict[int, Count] = {}
    places: dict[int, tuple[int, int, int, int]] = {}


class Unit(Record, kw_only=True, frozen=True):
    """Which of many nodes with the same machine: for each mark that could be read (an SSH host key,
    the machine id, serial numbers) a digest of it with ``salt`` (hexadecimal;
    :mod:`reports.certificate.unit`); ``unread`` says why there is none of the others."""

    salt: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{32})?$")] = ""
    digests: dict[str, Annotated[str, msgspec.Meta(pattern="^scrypt:[0-9a-f]{64}$")]] = {}
    unread: dict[str, str] = {}


class Firmware(Record, kw_only=True, frozen=True):
    """System, board and firmware, as DMI names them. ``settings`` are what firmware and kernel set
    for CPUs; ``not there`` and ``not readable`` are said."""

    vendor: str = ""
    product: str = ""
    board: str = ""
    firmware_vendor: str = ""
    firmware_version: str = ""
    firmware_date: str = ""
    settings: dict[str, str] = {}


class System(Record, kw_only=True, frozen=True):
    """What runs on the machine. ``emulated`` names who emulates the machine, ``""``: hardware, as
    far as firmware and systemd show it. All is empty in a pre-certificate, which has no node."""

    emulated: str = ""
    os: str = ""
    kernel: str = ""
    architecture: str = ""
    command_line: str = ""
    systemd: str = ""
    cgroup: str = ""
    runtime: str = ""
    distribution: str = ""


class Kubelet(Record, kw_only=True, frozen=True):
    """The kubelet: exact version, its release, and the digest of its program."""

    version: str
    release: str
    digest: Digest


class Configuration(Record, kw_only=True, frozen=True):
    """The kubelet's configuration as it was found before the run: the settings that decide CPUs,
    and the digest of all settings together (as JSON, keys sorted). ``""``: it was not asked for."""

    settings: dict[str, str] = {}
    digest: Digest = ""


class Profile(Record, kw_only=True, frozen=True):
    """How much of one level was shown. ``apply`` = ``kept`` + ``broken`` + ``unknown`` +
    ``not_run``; ``skipped`` do not apply to this release or machine."""

    name: Level
    release: str
    apply: Count
    kept: Count
    broken: Count
    unknown: Count
    not_run: Count
    skipped: Count
    claimed: bool

    @property
    def ran(self) -> int:
        """Scenarios that came to a verdict."""
        return self.kept + self.broken


class Entry(Record, kw_only=True, frozen=True):
    """One scenario. ``reason`` says why there is no verdict, or what is broken; ``evidence`` is
    whether the result stream has a result of it."""

    id: str
    title: str
    level: Level
    source: str
    outcome: Outcome
    reason: str = ""
    seconds: float = 0.0
    evidence: bool = True


class Evidence(Record, kw_only=True, frozen=True):
    """The result stream that all verdicts come from."""

    name: str
    digest: Digest
    bytes: Count


class Noise(Record, kw_only=True, frozen=True):
    """Measured scheduling noise of one container: the longest gap in microseconds."""

    name: str
    cpus: str
    gap: float
    involuntary: Count
    seconds: float


class Judged(Record, kw_only=True, frozen=True):
    """A promise of exclusive CPUs that is not the kubelet's: ``what`` it is about, the ``claim`` of
    the node, its runtime or its vendor, and what was ``seen``."""

    what: str
    claim: str
    seen: str
    kept: bool


class UpgradeStage(Record, kw_only=True, frozen=True):
    """The node once a kubelet had run on it and was given its pods. ``leg``: a part of the way,
    ``""`` before the upgrade. ``kubelet`` is its version; ``exclusive`` has the CPUs of each
    container (``pod/container``) that held CPUs of its own, by the state file and the cgroups;
    ``restarted`` are the containers that were ended and started again since the stage before."""

    leg: str
    kubelet: str
    runs: bool
    error: str = ""
    exclusive: dict[str, str] = {}
    shared_pool: str = ""
    restarted: list[str] = []


class BrokenPromise(Record, kw_only=True, frozen=True):
    """A promise that was broken on a leg of an upgrade, after a step of this kubelet."""

    leg: str
    kubelet: str
    step: str
    rule: str
    source: str
    differences: list[str] = []


class Upgrade(Record, kw_only=True, frozen=True):
    """An upgrade of the node's kubelet to ``kubelet``, as it was ``named``, the way back, and the
    upgrade once more, on the node itself. ``reason``: why there is no verdict. ``restored``:
    whether the node was left with its own kubelet, and as it was."""

    named: str
    outcome: UpgradeOutcome
    words: str
    kubelet: Kubelet | None = None
    stages: list[UpgradeStage] = []
    broken: list[BrokenPromise] = []
    reason: str = ""
    restored: bool = True


class Facts(Record, kw_only=True, frozen=True, omit_defaults=True):
    """What a certificate says beside in-toto's fields. Times are ISO 8601, UTC. ``digest`` is
    SHA-256 of the whole certificate with this field empty. ``operator`` is who ran it, as they say
    or their key does; ``""``: nobody said. ``upgrade``: ``None`` where none was asked for.
    ``judged`` is left out where nothing of it was promised."""

    schema: int
    kind: Literal["certificate", "pre-certificate"]
    title: str
    verdict: Verdict
    words: str
    exit_status: Annotated[int, msgspec.Meta(ge=0, le=5)]
    digest: Digest
    depth: str
    started: str
    finished: str
    expires: str
    suite: Suite
    machine: Machine
    unit: Unit
    operator: str
    firmware: Firmware
    system: System
    kubelet: Kubelet
    configuration: Configuration
    profiles: list[Profile]
    restored: bool
    allowed: str
    narrowed: str
    caution: str
    lint: list[str]
    facts: dict[str, str]
    noise: list[Noise]
    upgrade: Upgrade | None
    judged: list[Judged] = []
    scenarios: list[Entry]
    evidence: Evidence
    not_claimed: str


class Predicate(Record, kw_only=True, frozen=True):
    """``result`` is in-toto's word for the verdict. The lists are ids of scenarios: kept, required
    and without a verdict, broken."""

    result: Literal["PASSED", "WARNED", "FAILED"]
    configuration: list[Descriptor]
    passed: list[str] = msgspec.field(name="passedTests")
    warned: list[str] = msgspec.field(name="warnedTests")
    failed: list[str] = msgspec.field(name="failedTests")
    pinproof: Facts


class Statement(Record, kw_only=True, frozen=True):
    """The whole file. ``subject`` is the kubelet and the machine."""

    type: Literal["https://in-toto.io/Statement/v1"] = msgspec.field(name="_type")
    subject: list[Descriptor]
    predicate_type: Literal["https://in-toto.io/attestation/test-result/v0.1"] = msgspec.field(
        name="predicateType"
    )
    predicate: Predicate

    @property
    def facts(self) -> Facts:
        """What the certificate says beside in-toto's fields."""
        return self.predicate.pinproof


_DECODER: Final = msgspec.json.Decoder(Statement)


def encode(statement: Statement) -> bytes:
    """The certificate's file: UTF-8, indented by one blank, a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(statement), indent=1) + b"\n"


def decode(data: bytes) -> Statement:
    """The certificate that the bytes are. Raises :class:`CertificateError`, in one line, for what
    is not one. :mod:`reports.certificate.checking` checks whether it contradicts itself."""
    if len(data) > LARGEST:
        raise CertificateError(f"more than {LARGEST >> 20} MiB: not a certificate")
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CertificateError(f"not a certificate of pinproof: {error}") from error


def sealed(statement: Statement) -> Statement:
    return _with_digest(statement, seal_of(statement))


def seal_of(statement: Statement) -> str:
    """The digest that a certificate must have: ``sha256:…`` of it with an empty one."""
    return digest_of(encode(_with_digest(statement, "")))


def digest_of(data: bytes) -> str:
    """``sha256:…`` of these bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _with_digest(statement: Statement, digest: str) -> Statement:
    facts = msgspec.structs.replace(statement.facts, digest=digest)
    predicate = msgspec.structs.replace(statement.predicate, pinproof=facts)
    return msgspec.structs.replace(statement, predicate=predicate)
