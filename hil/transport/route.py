"""The route to a node: what results from an address, the user's options and ``~/.ssh/config``.

What belongs here: host, user, keys and the hosts in between. What never does: connecting. The
user's options override the configuration file; of that, ``HostName``, ``User``, ``Port``,
``IdentityFile``, ``UserKnownHostsFile`` and ``ProxyJump`` are honoured. ``StrictHostKeyChecking``
is not: a key is known, or there is no connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hil.shell import NodeUsageError
from topologies.capturing.address import Address
from topologies.capturing.errors import BadTarget

_MOST_JUMPS: Final = 8


@dataclass(frozen=True, slots=True)
class Hop:
    """One host to log in at. ``identity`` empty: the agent's keys and ``~/.ssh``'s."""

    address: Address
    identity: tuple[Path, ...]
    known_hosts: Path

    def __str__(self) -> str:
        return str(self.address)


def route(
    url: str,
    *,
    identity: Sequence[Path] = (),
    known_hosts: Path | None = None,
    jump: Sequence[str] = (),
    config: Path | None = None,
) -> tuple[Hop, ...]:
    """The hosts in order, the node last. ``config`` instead of ``~/.ssh/config``; where there is
    no such file, nothing is read. Raises :class:`NodeUsageError`."""
    entries = _Config(config if config is not None else Path.home() / ".ssh" / "config")
    address = _address(url)
    between = list(jump) or entries.jumps(address.host)
    if len(between) > _MOST_JUMPS:
        raise NodeUsageError(f"{url}: more than {_MOST_JUMPS} jump hosts")
    hops = [*map(_address, between), address]
    return tuple(entries.hop(one, tuple(identity), known_hosts) for one in hops)


def _address(url: str) -> Address:
    try:
        return Address.parse(url if "://" in url else f"ssh://{url}")
    except BadTarget as error:
        raise NodeUsageError(f"{error.source}: {error.reason}") from None


class _Config:
    """``~/.ssh/config``, as far as it is honoured."""

    def __init__(self, path: Path) -> None:
        import paramiko

        self._path = path
        self._config = paramiko.SSHConfig()
        if path.is_file():
            try:
                self._config = paramiko.SSHConfig.from_path(str(path))
            except (paramiko.SSHException, OSError, UnicodeDecodeError) as error:
                raise NodeUsageError(f"{path}: {error}") from error

    def hop(self, address: Address, identity: tuple[Path, ...], known: Path | None) -> Hop:
        """One host, with what the file adds."""
        found = self._lookup(address.host)
        hosts = str(found.get("userknownhostsfile", "")).split()
        return Hop(
            Address(
                str(found.get("hostname", address.host)),
                address.user or found.get("user"),
                self._port(found, address),
            ),
            identity or tuple(Path(name).expanduser() for name in found.get("identityfile", ())),
            known or Path(hosts[0] if hosts else "~/.ssh/known_hosts").expanduser(),
        )

    def jumps(self, host: str) -> list[str]:
        """``ProxyJump`` of a host."""
        found = self._lookup(host)
        if found.get("proxycommand"):
            raise NodeUsageError(
                f"{self._path}: {host}: ProxyCommand is not supported; use ProxyJump"
            )
        value = str(found.get("proxyjump", "none"))
        return [] if value == "none" else [one.strip() for one in value.split(",")]

    def _port(self, found: dict[str, str], address: Address) -> int:
        port = str(found.get("port", ""))
        return (
            int(port) if address.port == 22 and port.isascii() and port.isdigit() else address.port
        )

    def _lookup(self, host: str) -> dict[str, str]:
        import paramiko

        try:
            return self._config.lookup(host)
        except (paramiko.SSHException, ImportError) as error:
            raise NodeUsageError(f"{self._path}: {host}: {error}") from error
