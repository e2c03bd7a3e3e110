"""Taking a node, and giving it back as it was.

What belongs here: the guard around a node, and what has to be undone in which order. What never
does: how anything is undone (:mod:`hil.safety`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hil.access import NodeAddress
from hil.facts import NodeFacts
from hil.flavours import flavour_of
from hil.node.booting import booter
from hil.node.hands import GuardedHands
from hil.node.member import Member
from hil.pods import Image
from hil.safety import Guarded, Risk
from hil.shell import Shell

#: Seconds that a slow machine may take to forget our pods, once their manifests are gone.
_SETTLE: Final = 120.0


@dataclass(frozen=True, slots=True)
class Taken:
    """A node that is ours."""

    member: Member
    guarded: Guarded

    def give_back(self) -> None:
        """Restore it. Raises :class:`hil.safety.NotRestored` and what the shell raises."""
        self.guarded.__exit__(None, None, None)


def take(
    address: NodeAddress, shell: Shell, facts: NodeFacts, *, risk: Risk, image: Image
) -> Taken:
    """Take a node for a run. Raises :class:`hil.shell.NodeUnfit`, :class:`hil.safety.NodeBusy` and
    what the shell raises."""
    guarded = Guarded(shell, facts, risk, allow=address.allow, static_pods=True, settle=_SETTLE)
    guarded.__enter__()
    try:
        member = Member(
            address.name,
            GuardedHands(shell, guarded),
            facts,
            flavour_of(facts, named=address.flavour),
            risk=risk,
            image=image,
            boot=booter(address, shell),
            spec=address.lab,
        )
    except BaseException:
        guarded.__exit__(None, None, None)
        raise
    return Taken(member, guarded)
