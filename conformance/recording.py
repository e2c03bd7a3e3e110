"""Recordings of real kubelets: the view after each step of a scenario on a machine.

A recording is made by running scenarios on a real kubelet (``--pin-record FILE``) and ships with
the project (``conformance/recordings/RELEASE.jsonl.xz``). It is the oracle for the subject
``reference``, which must not be judged by itself. This command makes recordings again:

    python -m conformance.record RELEASE ...

A scenario in which chance decided otherwise than the model has it is not recorded: a kubelet of the
same release may do something else next time.

The file is JSON lines: a header that names the kubelet, then one line a case.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from conformance.aliases import present
from conformance.lockstep import Seen
from conformance.written import made, plain
from reference import Release
from reference.steps import Step
from reference.view import View
from topologies import Machine

SHIPPED: Final = Path(__file__).parent / "recordings"


class RecordingError(Exception):
    """A recording cannot be read; ``str()`` is one line."""


class RecordingHeader(
    msgspec.Struct, tag="recording", tag_field="kind", frozen=True, kw_only=True, omit_defaults=True
):
    """Which kubelet was recorded: the build that recorded last, and the ``others`` of its version
    that recorded what is kept beside. Another Go toolchain makes another build."""

    release: str
    version: str
    digest: str
    others: tuple[str, ...] = ()

    def after(self, before: RecordingHeader) -> RecordingHeader:
        """The header with the builds of the recording that it adds to."""
        builds = dict.fromkeys((*before.others, before.digest))
        builds.pop(self.digest, None)
        return msgspec.structs.replace(self, others=tuple(builds))


class RecordedPod(msgspec.Struct, frozen=True, omit_defaults=True):
    """:class:`reference.view.PodView`."""

    phase: str
    qos: str = ""
    reason: str = ""
    message: str = ""
    resize: str = ""


class RecordedStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step in words, and :class:`reference.view.View` after it with CPU sets as texts."""

    step: str
    running: bool
    error: str = ""
    exit_status: int | None = None
    pods: dict[str, RecordedPod] = {}
    assignments: dict[str, dict[str, str]] = {}
    shared_pool: str = ""
    state_file: str | None = None
    cpusets: dict[str, dict[str, str | None]] = {}
    hangs: str = ""


class RecordedCase(msgspec.Struct, tag="case", tag_field="kind", frozen=True, kw_only=True):
    """A scenario on a machine; ``machine`` is its digest, so a changed tree has no recording."""

    scenario: str
    machine: str
    steps: list[RecordedStep]


_LINE: Final = msgspec.json.Decoder(RecordingHeader | RecordedCase)


def recorded(scenario: str, machine: Machine, history: Iterable[Seen]) -> RecordedCase:
    steps = [{"step": seen.step, **plain(seen.view)} for seen in history]
    recorded = msgspec.convert(steps, list[RecordedStep])
    return RecordedCase(scenario=scenario, machine=machine.digest, steps=recorded)


def write(path: Path, header: RecordingHeader, cases: Sequence[RecordedCase]) -> None:
    """Write a recording, its cases in order of scenario and machine. Cases in the file stay if they
    are of a kubelet of the same version and were not recorded again."""
    kept = read(path) if path.exists() else None
    if kept is not None and kept.header.version != header.version:
        kept = None
    known = kept.cases if kept is not None else {}
    lines = [msgspec.json.encode(header.after(kept.header) if kept is not None else header)]
    merged = {**known, **{(case.scenario, case.machine): case for case in cases}}
    ordered = [merged[key] for key in sorted(merged)]
    lines += [msgspec.json.encode(case) for case in ordered]
    data = b"\n".join(lines) + b"\n"
    path.write_bytes(lzma.compress(data, preset=9) if path.suffix == ".xz" else data)


def require_writable(path: Path) -> None:
    """Raise :class:`RecordingError` where :func:`write` could write no recording."""
    if path.is_dir() or not path.parent.is_dir():
        raise RecordingError(f"{path}: a recording is a file in a folder that exists")
    if path.exists():
        read(path)


class Recording:
    """The recorded cases of one kubelet, under the ids that their scenarios have today."""

    def __init__(self, header: RecordingHeader, cases: Iterable[RecordedCase]) -> None:
        self.header = header
        self.cases = {(present(case.scenario), case.machine): case for case in cases}

    def case(self, scenario: str, machine: Machine) -> RecordedCase | None:
        """The recorded case, or ``None``."""
        return self.cases.get((scenario, machine.digest))


def read(path: Path) -> Recording:
    """Read a recording. Raises :class:`RecordingError`."""
    try:
        data = path.read_bytes()
        lines = (lzma.decompress(data) if path.suffix == ".xz" else data).splitlines()
        records = [_LINE.decode(line) for line in lines]
    except (OSError, lzma.LZMAError, msgspec.DecodeError) as error:
        raise RecordingError(f"{path}: not a recording: {error}") from error
    if not records or not isinstance(records[0], RecordingHeader):
        raise RecordingError(f"{path}: not a recording: no header")
    return Recording(records[0], (one for one in records[1:] if isinstance(one, RecordedCase)))


@lru_cache(maxsize=16)
def shipped(release: str) -> Recording | None:
    """The recording that ships for this minor, or for exactly this patch release; else ``None``."""
    minor = ".".join(release.split(".")[:2])
    path = SHIPPED / f"{minor}.jsonl.xz"
    recording = read(path) if path.exists() else None
    if recording is None or release in (minor, recording.header.version.removeprefix("v")):
        return recording
    return None


def recorded_releases() -> list[str]:
    """The minors for which a recording ships, oldest first."""
    found = [path.name.removesuffix(".jsonl.xz") for path in SHIPPED.glob("*.jsonl.xz")]
    return sorted(found, key=lambda release: Release.parse(release).minor)


class RecordedOracle:
    """An oracle that repeats what a real kubelet did. It knows nothing more after a step that was
    not recorded in this place (the scenario has changed since); ``lost`` is that step."""

    def __init__(self, case: RecordedCase, header: RecordingHeader) -> None:
        self.name = f"a recording of a real kubelet {header.version}"
        self._steps = iter(case.steps)
        self.lost = ""

    def after(self, step: Step) -> View | None:
        recorded_step = None if self.lost else next(self._steps, None)
        if recorded_step is None or recorded_step.step != step.sentence:
            self.lost = self.lost or step.sentence
            return None
        return made(View, plain(recorded_step))

    outcomes = 1

    def follow(self, seen: View, *, late: bool) -> View | None:
        """A recording has only one outcome."""
        return None


class PromisesOnly:
    """An oracle that knows nothing: only the promise in words and the invariants judge."""

    name = "the promise in words alone"
    outcomes = 1

    def __init__(self, *_: object, **__: object) -> None:
        """Takes and ignores the arguments of every :class:`conformance.lockstep.OracleMaker`."""

    def after(self, step: Step) -> View | None:
        return None

    def follow(self, seen: View, *, late: bool) -> View | None:
        return None


def recorded_oracle(
    scenario: str, machine: Machine, release: str
) -> Callable[..., RecordedOracle | PromisesOnly]:
    """A maker of oracles for one scenario on one machine (the scenario may boot a variant of it):
    the recording that ships, or :class:`PromisesOnly` if there is none."""
    recording = shipped(release)
    case = recording.case(scenario, machine) if recording else None
    if recording is None or case is None:
        return PromisesOnly
    header = recording.header
    return lambda *_, **__: RecordedOracle(case, header)
