"""The node that scenarios drive, in parts: what they read, the steps, the promises, and the
comparison of subject and oracle after each step."""

from conformance.lockstep.node import LockstepNode
from conformance.lockstep.outcome import CouldNotTell, Divergence, Seen, holdings, machine_record
from conformance.lockstep.steps import OracleMaker

__all__ = [
    "CouldNotTell",
    "Divergence",
    "LockstepNode",
    "OracleMaker",
    "Seen",
    "holdings",
    "machine_record",
]
