"""Importing this module fills the catalogue. The order of areas is theirs in every list."""

from conformance.scenarios import qos  # isort: skip
from conformance.scenarios import packing  # isort: skip
from conformance.scenarios import pool  # isort: skip
from conformance.scenarios import admission  # isort: skip
from conformance.scenarios import restart  # isort: skip
from conformance.scenarios import state  # isort: skip
from conformance.scenarios import machine  # isort: skip
from conformance.scenarios import options  # isort: skip
from conformance.scenarios import config  # isort: skip
from conformance.scenarios import topology  # isort: skip
from conformance.scenarios import node  # isort: skip
from conformance.scenarios import pod_level  # isort: skip
from conformance.scenarios import uneven  # isort: skip

__all__ = [
    "admission",
    "config",
    "machine",
    "node",
    "options",
    "packing",
    "pod_level",
    "pool",
    "qos",
    "restart",
    "state",
    "topology",
    "uneven",
]
