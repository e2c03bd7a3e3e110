"""Booting a node: through the lab, which can make another machine of it, or by its own systemd."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hil.safety import Allow, refuse_if_held
from hil.shell import NeedsKubelet, NodeError, NodeUnreachable, NodeUsageError, Shell
from hil.transport import NodeAddress, connected

_BOOT_ID: Final = "cat /proc/sys/kernel/random/boot_id"
#: A node that goes down still answers with its old boot id for some seconds.
_GOING: Final = f"{_BOOT_ID}; systemctl is-system-running; :"
_PATIENCE: Final = 900.0
_PAUSE: Final = 2.0

#: Boots the node, as this machine where one is named; returns once it can be reached again.
Boot = Callable[[str], None]


def may_boot(address: NodeAddress) -> bool:
    """Whether the node may be booted again: it is the lab's, or its inventory allows it."""
    return bool(address.lab) or Allow.REBOOT in address.allow


def booter(address: NodeAddress, shell: Shell) -> Boot | None:
    """How this node is booted again; ``None`` where it must not be."""
    if not may_boot(address):
        return None
    if address.lab:
        return lambda machine: _by_lab(address.name, shell, machine)
    return lambda machine: _by_itself(shell, machine)


def _by_lab(name: str, shell: Shell, machine: str) -> None:
    from hil import lab  # only a lab node needs QEMU's side of it

    # A scenario that boots a node stops its kubelet next, and starts it at its own time.
    lab.reboot(name, spec=machine, kubelet=False, for_a_while=True)
    if isinstance(shell, NeedsKubelet):  # the lab looks over SSH
        _await_answer(shell, lambda _: True)


def _by_itself(shell: Shell, machine: str) -> None:
    if machine:
        raise NodeUsageError(f"{shell.name} cannot be booted as {machine}")
    before = shell.run(_BOOT_ID).text
    shell.run("systemctl reboot --no-block")
    _await_answer(shell, lambda boot: boot != before)


def _await_answer(shell: Shell, right: Callable[[str], bool]) -> None:
    """Wait until it answers, with a boot id that is ``right``."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        time.sleep(_PAUSE)
        try:
            if right(shell.run(_BOOT_ID).text):
                return
        except NodeError:
            continue
    raise NodeUnreachable(f"{shell.name} did not come back in {_PATIENCE:g} s after its reboot")


def was_booted(before: str, ask: Callable[[str], str], *, patience: float) -> bool:
    """Whether a node whose connection broke has another boot id than ``before``, once it answers
    again. ``ask`` runs a command on it and may raise :class:`NodeError`. ``False`` at once where it
    answers as it was and is not going down, and after ``patience`` seconds without an answer."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        try:
            boot, _, state = ask(_GOING).partition("\n")
        except NodeError:
            boot, state = before, "stopping"
        if boot != before:
            return True
        if state.strip() != "stopping":
            return False
        time.sleep(_PAUSE)
    return False


def boot_as_before(
    address: NodeAddress, *, force: bool = False, say: Callable[[str], None] = lambda _: None
) -> str:
    """Boot a node of the lab as the machine that it was, where a run that is dead left it as
    another one, or off. Returns that machine; ``""``: nothing had to be booted. Raises
    :class:`hil.safety.NodeBusy` where that run may be alive, unless ``force``d; what the lab and
    the shell raise."""
    if not address.lab:
        return ""
    from hil import lab  # only a lab node needs QEMU's side of it

    there = {one.name: one for one in lab.all_nodes()}
    machine = lab.was(address.name) if address.name in there else ""
    if not machine:
        return ""
    if there[address.name].state is lab.State.UP and not force:
        with connected(address) as shell:
            refuse_if_held(shell)
    lab.reboot(address.name, spec=machine, kubelet=False, say=say)
    return machine


def larger_spec(spec: str) -> str:
    """A description like ``spec`` with two physical cores more in every NUMA node and socket;
    ``""`` for any other text."""
    parts = spec.split("-")
    counts = {each[-1:]: each[:-1] for each in parts[:3]}
    if set(counts) != {"s", "n", "c"} or not all(each.isdecimal() for each in counts.values()):
        return ""
    more = 2 * max(int(counts["s"]), int(counts["n"]))
    return "-".join([*parts[:2], f"{int(counts['c']) + more}c", *parts[3:]])
