"""The promises of the kubelet to users, which hold for every release and its algorithm.

:data:`PROMISES` is the list: each promise has an id, a sentence, where it is made, and the releases
that it is made for. :func:`violations` judges one settled view of a node; :func:`broken_in_step`
judges a step by the views before and after it. Both take a :class:`Situation`: what was configured
and applied, on which CPUs. A :class:`Violation` names the rule, which :func:`promise_of` turns into
its promise.

    view = node.view()
    for broken in violations(view, situation):
        print(promise_of(broken.rule).id, broken.difference)

Every run judges every step by :func:`violations`; ``pinproof hunt`` judges by both.
"""

from conformance.promises.histories import GOING_ON, broken_in_step
from conformance.promises.situation import Situation, Violation
from conformance.promises.table import PROMISES, Promise, promise_of
from conformance.promises.views import (
    AS_BOOKED,
    EVERY_CPU,
    EXCLUSIVE_TO_ONE,
    POD_RESOURCES_AS_STATE_FILE,
    RESERVED_STAY,
    violations,
)

__all__ = [
    "AS_BOOKED",
    "EVERY_CPU",
    "EXCLUSIVE_TO_ONE",
    "GOING_ON",
    "POD_RESOURCES_AS_STATE_FILE",
    "PROMISES",
    "RESERVED_STAY",
    "Promise",
    "Situation",
    "Violation",
    "broken_in_step",
    "promise_of",
    "violations",
]
