"""Which worker of pytest-xdist runs what, where machines are real nodes.

What belongs here: all scenarios of one node go to one worker. xdist's own groups (``--dist
loadgroup``) would say the same, but pytest 9.2 no longer sees the ids that xdist 3.8 gives to tests
of a group, and deals them out.
"""

from __future__ import annotations

import re
from typing import Final

from xdist.scheduler import LoadScopeScheduling

from topologies import whole

#: ``…[area/name@node7]``
_MACHINE: Final = re.compile(r"@([^@\]]*)\]$")


class Nodewise(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """One node is one unit of work."""

    def _split_scope(self, nodeid: str) -> str:
        found = _MACHINE.search(nodeid)
        return whole(found[1]) if found else ""
