"""A rehearsal, and further ones that its result asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

from conformance.lockstep import CouldNotTell
from conformance.lockstep.steps import salted
from conformance.subject import HasSalt, Subject, SubjectLostError, SubjectUsageError, TakesOver
from conformance.upgrading.outcome import Rehearsed, Turn
from conformance.upgrading.plan import Going, Killed, Leg, Plan
from conformance.upgrading.pods import moved
from conformance.upgrading.rehearsal import Rehearsal
from reference.view import View


def rehearse(
    old: Subject, new: Subject, plan: Plan, *, say: Callable[[str], None] = lambda stage: None
) -> Rehearsed:
    """Upgrade a node from ``old`` to ``new``, downgrade it, and upgrade it repeated. ``say`` gets
    lines of progress.

    Raises :class:`SubjectUsageError` if the new one cannot continue on a node of the old one,
    :class:`SubjectSetupError` if the old one does not start, and :class:`SubjectLostError`.
    """
    for one in (old, new):
        if not isinstance(one, TakesOver):
            raise SubjectUsageError(f"{one.info.name} cannot take over from another kubelet")
    result = _rehearsed(old, new, plan, say)
    refused = next((one for one in result.stages if one.leg and one.view.error), None)
    if refused is None or refused.leg is None or plan.changes:
        return result
    leg = refused.leg
    try:
        repeated = _rehearsed(old, new, replace(plan, emptied=leg, killed=None), say)
    except SubjectLostError:  # the first result stays
        return result
    before, after = _around(repeated, leg)
    elsewhere = moved(before, after) if after.running else ()
    turn = Turn(refused.kubelet, leg, {}, refused.view.error, after.running, elsewhere)
    return replace(result, turns=(turn,))


def with_drained(
    found: Rehearsed,
    old: Subject,
    new: Subject,
    plan: Plan,
    *,
    say: Callable[[str], None] = lambda stage: None,
) -> Rehearsed:
    """The result, with whether it helps to delete every pod first, if a promise was broken while
    pods ran. Raises what :func:`rehearse` raises."""
    if not found.harmed_legs or not plan.stays_up:
        return found
    repeated = _rehearsed(old, new, replace(plan, going=Going.DRAIN, killed=None), say)
    return replace(found, drained=repeated.harmed_legs)


def _rehearsed(old: Subject, new: Subject, plan: Plan, say: Callable[[str], None]) -> Rehearsed:
    if isinstance(old, HasSalt):
        salt = old.salt()
        pods, later = ([salted(one, salt) for one in each] for each in (plan.pods, plan.later))
        plan = replace(plan, pods=pods, later=later)
    rehearsal = Rehearsal(old, new, plan, say)
    try:
        return rehearsal.run()
    except CouldNotTell as error:
        raise SubjectLostError(str(error), evidence=error.evidence) from error
    finally:
        rehearsal.close()


def _around(found: Rehearsed, leg: Leg) -> tuple[View, View]:
    """The views before a leg and at its end."""
    at = next(number for number, one in enumerate(found.stages) if one.leg is leg)
    return found.stages[at - 1].view, found.stages[at].view


def rehearse_killed(
    old: Subject, new: Subject, plan: Plan, *, say: Callable[[str], None] = lambda stage: None
) -> Iterator[tuple[str, Rehearsed]]:
    """Rehearse with the new kubelet killed at each rename that it makes at its start and for one
    more pod. Yields where it was killed, with the file, and the result. Raises as :func:`rehearse`,
    and :class:`SubjectUsageError` if a kubelet cannot be killed so."""
    for killed in (Killed(number, after) for number in count(1) for after in (False, True)):
        say(f"{new.info.name} is killed {killed}")
        found = rehearse(old, new, replace(plan, killed=killed), say=say)
        if not found.killed:
            return
        yield f"{killed} ({found.killed})", found
