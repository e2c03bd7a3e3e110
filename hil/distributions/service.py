"""A kubelet as a service of systemd: the scripts that all distributions share.

What belongs here: POSIX scripts made from facts. What never does: running them. In a crash loop a
unit is ``activating (auto-restart)``, and ``failed`` once its start limit is reached; a start by
hand is refused then until ``reset-failed``.
"""

from __future__ import annotations

import shlex
from typing import Final

from hil.distributions.distribution import Health
from hil.inspection import NodeFacts
from hil.shell import NodeUnfit

_LINES: Final = 400

#: Asks the kubelet itself, with whatever the node has.
_ASK: Final = r"""h= asked=
u=http://127.0.0.1:@PORT@/healthz
if command -v curl >/dev/null; then asked=1 h=$(curl -s -m 5 --noproxy '*' "$u")
elif command -v wget >/dev/null; then asked=1 h=$(no_proxy='*' wget -q -T 5 -O - "$u")
elif command -v busybox >/dev/null; then asked=1 h=$(no_proxy='*' busybox wget -q -T 5 -O - "$u")
elif command -v bash >/dev/null; then
  asked=1 h=$(timeout 5 bash -c 'exec 3<>/dev/tcp/127.0.0.1/@PORT@ &&
    printf "GET /healthz HTTP/1.0\r\n\r\n" >&3 && tail -n 1 <&3')
fi 2>/dev/null
printf 'asked=%s\nhealthz=%.20s\n' "$asked" "$h"
"""

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


def restart(facts: NodeFacts) -> str:
    """Forgets a start limit first."""
    unit = unit_of(facts)
    return f"systemctl reset-failed {unit} 2>/dev/null; systemctl restart --no-block {unit}"


def stop(facts: NodeFacts) -> str:
    """Waits for it."""
    return f"systemctl stop {unit_of(facts)}"


def start(facts: NodeFacts) -> str:
    """Forgets a start limit first."""
    unit = unit_of(facts)
    return f"systemctl reset-failed {unit} 2>/dev/null; systemctl start {unit}"


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


def health(facts: NodeFacts, *, child: bool) -> str:
    """Lines of name and value."""
    unit = unit_of(facts)
    settings = facts.kubelet.settings if facts.kubelet else {}
    given = str(settings.get("healthzPort", "10248"))
    port = given if given.isascii() and given.isdigit() else "10248"
    shown = "ActiveState,SubState,NRestarts,MainPID,InvocationID"
    ask = _ASK.replace("@PORT@", port) if port != "0" else ""
    also = f"echo child=$({_child(unit)})\n" if child else ""
    return f"systemctl show -p {shown} {unit}\n{also}{ask}"


def read_health(text: str) -> Health:
    """What :func:`health` printed; what is missing counts as down."""
    shown = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    child = shown.get("child")
    main = shown.get("SubState") == "running" and shown.get("MainPID", "0") != "0"
    running = bool(child) if child is not None else main
    asked = shown.get("asked") == "1"
    restarts = shown.get("NRestarts", "")
    return Health(
        running=running,
        healthy=shown.get("healthz", "") == "ok" if asked else None,
        crashing=shown.get("SubState") == "auto-restart" or shown.get("ActiveState") == "failed",
        since=(child or shown.get("InvocationID", "")) if running else "",
        restarts=int(restarts) if restarts.isascii() and restarts.isdigit() else 0,
    )


def evidence(facts: NodeFacts, *, log: str = "") -> str:
    """The journal of the unit, or of a file where the kubelet's own words go there."""
    if log:
        return f"tail -n {_LINES} {shlex.quote(log)}"
    return f"journalctl --no-pager -o cat -n {_LINES} -u {unit_of(facts)}"


def _child(unit: str) -> str:
    return _CHILD.replace("@UNIT@", unit)
