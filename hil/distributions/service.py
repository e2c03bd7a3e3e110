"""A kubelet as a service of systemd: the scripts that all distributions share.

What belongs here: POSIX scripts made from facts. What never does: running them. In a crash loop a
unit is ``activating (auto-restart)``, and ``failed`` once its start limit is reached; a start by
hand is refused then until ``reset-failed``.
"""

from __future__ import annotations

import shlex
from typing import Final

from hil.inspection import NodeFacts
from hil.shell import NodeUnfit

#: The process of that name in the unit's cgroup, by its number and start.
_CHILD: Final = r"""for p in /proc/[0-9]*; do
  read -r c <"$p/comm" && [ "$c" = kubelet ] && grep -q @UNIT@ "$p/cgroup" || continue
  s=$(cat "$p/stat") && s=${s##*)} && set -- $s && echo "${p##*/} ${20}"
done 2>/dev/null | head -n 1
"""


def unit_of(facts: NodeFacts) -> str:
    """The unit, quoted. Raises :class:`NodeUnfit`."""
    kubelet = facts.kubelet
    if kubelet is None:
        raise NodeUnfit(f"{facts.name}: there is no kubelet on it")
    if not facts.systemd or not kubelet.unit:
        raise NodeUnfit(f"{facts.name}: its kubelet is not a systemd service")
    return shlex.quote(kubelet.unit)


def kill(facts: NodeFacts, *, child: bool) -> str:
    """Its main process, or the kubelet below that."""
    unit = unit_of(facts)
    if not child:
        return f"systemctl kill --signal=KILL --kill-who=main {unit}"
    return f"pid=$({_child(unit)}); kill -9 ${{pid%% *}}"


def identity(facts: NodeFacts, *, child: bool) -> str:
    """Nothing while it is down, or waits to be started again."""
    unit = unit_of(facts)
    if child:
        return _child(unit)
    return (
        f'[ "$(systemctl show -p SubState --value {unit})" = running ] && '
        f"systemctl show -p InvocationID --value {unit}"
    )


def _child(unit: str) -> str:
    return _CHILD.replace("@UNIT@", unit)
