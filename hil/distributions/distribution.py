"""What a distribution is: scripts that start and stop its kubelet, and changes that configure it.

What belongs here: the POSIX scripts of a kubelet as a service of systemd. What never does: which
distributions there are (:mod:`hil.distributions.kinds`). In a crash loop a unit is
``activating (auto-restart)``, and ``failed`` once its start limit is reached; a start by hand is
refused then until ``reset-failed``.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hil.changes import Change
from hil.distributions.configuring import by_file
from hil.inspection import KubeletFacts, NodeFacts, kubelet_of
from hil.shell import NodeUnfit
from reference.steps import KubeletConfig

#: ``show --value`` came with 230, ``InvocationID`` with 232, ``NRestarts`` with 235 and
#: ``systemd-run --collect`` with 236 (systemd's NEWS).
_SYSTEMD: Final = 236
#: Prints number and start of the process ``kubelet`` in the unit's cgroup.
_CHILD: Final = r"""for p in /proc/[0-9]*; do
  read -r c <"$p/comm" && [ "$c" = kubelet ] && grep -q @UNIT@ "$p/cgroup" || continue
  s=$(cat "$p/stat") && s=${s##*)} && set -- $s && echo "${p##*/} ${20}"
done 2>/dev/null | head -n 1
"""


@dataclass(frozen=True, slots=True)
class Distribution:
    """One kind of node: scripts and changes for its kubelet. Scripts raise
    :class:`hil.shell.NodeUnfit` where the node has no service manager that is known here.

    ``configure`` makes the changes after which the kubelet, started again, has a configuration; it
    raises :class:`hil.shell.NodeUnfit` where files cannot do that on this distribution.
    ``watched`` are files and folders beside those that decide the kubelet's configuration.
    ``child``: the kubelet is a child of the unit's program, so the unit does not show its state.
    ``at_boot`` is what writes the kubelet's configuration file again at each boot, or ``""``; a
    drop-in of pinproof stays.
    """

    name: str
    recognised: Callable[[NodeFacts, KubeletFacts | None], bool]
    configure: Callable[[NodeFacts, KubeletConfig], tuple[Change, ...]] = by_file
    child: bool = False
    watched: tuple[str, ...] = ()
    at_boot: str = ""

    def cannot_configure(self, facts: NodeFacts) -> str:
        """Why the kubelet's configuration cannot be changed, in one line; ``""``: it can."""
        return _refusal(facts, lambda: self.configure(facts, KubeletConfig()))

    def cannot_restart(self, facts: NodeFacts) -> str:
        """Why the kubelet cannot be stopped and started, in one line; ``""``: it can."""
        return _refusal(facts, lambda: self.stop(facts))

    def lost_at_boot(self, facts: NodeFacts) -> str:
        """What reverts a change of the kubelet's configuration at the next boot, in one line;
        ``""``: it stays."""
        return "" if kubelet_of(facts).config_dir else self.at_boot

    def stop(self, facts: NodeFacts) -> str:
        """Script: stop the kubelet, with the program that it lives in, and wait for that."""
        return f"systemctl stop {_unit_of(facts)}"

    def start(self, facts: NodeFacts) -> str:
        """Script: start it; a start limit that was reached is forgotten first."""
        unit = _unit_of(facts)
        return f"systemctl reset-failed {unit} 2>/dev/null; systemctl start {unit}"

    def kill(self, facts: NodeFacts) -> str:
        """Script: SIGKILL for the kubelet's process alone; a service manager may restart it."""
        unit = _unit_of(facts)
        if not self.child:
            return f"systemctl kill --signal=KILL --kill-who=main {unit}"
        return f"pid=$({_child(unit)}); kill -9 ${{pid%% *}}"

    def identity(self, facts: NodeFacts) -> str:
        """Script that prints one line that names the running process; nothing where it is down.
        Exit status 1: it is neither up nor down, or its service manager does not say."""
        unit = _unit_of(facts)
        if self.child:
            return _child(unit)
        return (
            f"s=$(systemctl show -p SubState --value {unit}) || exit 1\n"
            f"case $s in running) systemctl show -p InvocationID --value {unit} ;;\n"
            "dead | failed) ;; *) exit 1 ;; esac"
        )


def _refusal(facts: NodeFacts, make: Callable[[], object]) -> str:
    """Why a script, or changes, cannot be made; ``""``: they can."""
    try:
        make()
    except NodeUnfit as error:
        return str(error).removeprefix(f"{facts.name}: ")
    return ""


def _unit_of(facts: NodeFacts) -> str:
    """The unit, quoted."""
    unit = kubelet_of(facts).unit
    if not facts.systemd or not unit:
        raise NodeUnfit(f"{facts.name}: its kubelet is not a systemd service")
    if facts.systemd < _SYSTEMD:
        raise NodeUnfit(
            f"{facts.name}: systemd {facts.systemd} does not say enough of a unit; {_SYSTEMD} does"
        )
    return shlex.quote(unit)


def _child(unit: str) -> str:
    return _CHILD.replace("@UNIT@", unit)
