"""A scenario that was renamed is found under its old id too."""

from __future__ import annotations

import lzma
from pathlib import Path

import msgspec

from conformance import recording
from conformance.aliases import ALIASES, present, renamed
from conformance.catalogue import catalogue
from conformance.recording import RecordedCase, RecordingHeader
from tests.cli.conftest import Judges
from tests.cli.running import here

OLD = "topology/none-refuses-nobody"
NEW = "topology/none-admits-every-pod"


def test_every_alias_is_an_old_id_of_a_scenario_of_its_own() -> None:
    ids = {one.id for one in catalogue()}
    assert len(set(ALIASES.values())) == len(ALIASES) >= 10
    assert set(ALIASES.values()) <= ids
    assert not ids & set(ALIASES)


def test_old_ids_alone_are_replaced() -> None:
    assert present("pool/reserved-cpus-stay") == "pool/reserved-cpus-stay"
    assert present(OLD) == NEW
    assert renamed(f"({OLD} or pool/) and not qos") == f"({NEW} or pool/) and not qos"
    assert renamed(f"{OLD}-longer") == f"{OLD}-longer"


def test_a_recording_under_the_old_id_counts(tmp_path: Path) -> None:
    path = tmp_path / "1.36.jsonl.xz"
    header = RecordingHeader(release="1.36", version="v1.36.4", digest="sha256:0")
    case = RecordedCase(scenario=OLD, machine="sha256:1", steps=[])
    path.write_bytes(
        lzma.compress(b"\n".join(msgspec.json.encode(one) for one in (header, case)) + b"\n")
    )
    assert list(recording.read(path).cases) == [(NEW, "sha256:1")]


def test_explain_takes_an_old_id() -> None:
    assert here("explain", OLD).stdout.startswith(NEW)


def test_run_takes_an_old_id(judged: Judges) -> None:
    found = judged("-k", OLD, "--machine", "2s-2n-8c-smt2", status=0).found
    assert [one.scenario for one in found] == [NEW]
