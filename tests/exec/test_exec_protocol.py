"""The protocol's messages, and their schema."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

import topologies
from conformance.discovered import info_of
from conformance.subjects import exec as exec_subject
from conformance.subjects.exec import wire
from conformance.subjects.exec.machineinfo import machine_info
from conformance.subjects.exec.schema import schema

SCHEMA = Path(exec_subject.__file__).with_name("protocol.schema.json")


def test_the_schema_is_made_from_the_messages() -> None:
    assert SCHEMA.read_text() == schema()


def test_the_schema_says_what_every_message_is_for() -> None:
    parts = json.loads(schema())["$defs"]
    assert all(part["description"] for part in parts.values())


@pytest.mark.parametrize(
    "text", [None, "", '{"policyName":"none"}', "Zürich", "\udcff\udc80 no text", "\x00"]
)
def test_a_state_file_survives_the_line(text: str | None) -> None:
    request = wire.Start(node="n", state_file=wire.coded(text))
    back = msgspec.json.decode(wire.encode(request), type=wire.Start)
    assert not isinstance(back.state_file, msgspec.UnsetType)
    assert wire.text_of(back.state_file) == text


def test_what_is_left_out_of_a_start_is_not_sent() -> None:
    assert json.loads(wire.encode(wire.Start(node="n"))) == {"op": "start", "node": "n"}
    removed = wire.Start(node="n", state_file=None)
    assert json.loads(wire.encode(removed)) == {"op": "start", "node": "n", "state_file": None}


def test_a_machine_has_what_both_managers_read() -> None:
    """Physical cores as cAdvisor counts them: by core id alone, so 32 for two sockets of 32."""
    info = info_of(topologies.machine("2s-4n-64c-smt2").tree, release="1.36")
    answer = machine_info(info)
    assert (answer["num_cores"], answer["num_physical_cores"], answer["num_sockets"]) == (
        128,
        32,
        2,
    )
    node = answer["topology"][3]
    assert (node["node_id"], len(node["cores"]), len(node["distances"])) == (3, 16, 4)
    # In the order of the names of their folders.
    assert node["cores"][0]["thread_ids"] == [112, 48]
    assert node["cores"][0]["socket_id"] == 1
