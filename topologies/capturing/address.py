"""The SSH address of a host."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from topologies.capturing.errors import BadTarget

_SCHEME: Final = "ssh"
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9_.:%-]{1,255}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """``ssh://user@host:port``; ``str()`` leaves out a missing user, and port 22."""

    host: str
    user: str | None = None
    port: int = 22

    @classmethod
    def parse(cls, url: str) -> Address:
        """Raises :class:`BadTarget` for any other text, and for an address with a password: other
        users can read command lines."""
        parts = _split(url)
        try:
            port = parts.port
        except ValueError:
            raise BadTarget(_shown(parts), "the port is not a number up to 65535") from None
        host, user = parts.hostname or "", parts.username
        if parts.password is not None:
            raise BadTarget(_shown(parts), "an address must not contain a password: use a key")
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise BadTarget(_shown(parts), "an address is ssh://user@host:port, with nothing after")
        if not _HOST.fullmatch(host) or host.startswith("-") or port == 0:
            raise BadTarget(_shown(parts), "an address is ssh://user@host:port")
        if user is not None and not _USER.fullmatch(user):
            raise BadTarget(_shown(parts), "not a valid user name")
        return cls(host, user, 22 if port is None else port)

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        port = f":{self.port}" if self.port != 22 else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{_SCHEME}://{user}{host}{port}"

    @property
    def known_as(self) -> str:
        """The host's name in known_hosts."""
        return self.host if self.port == 22 else f"[{self.host}]:{self.port}"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise BadTarget(url.partition("@")[2] or url, str(error)) from error
    if parts.scheme != _SCHEME or not parts.netloc:
        raise BadTarget(url, "an address is ssh://user@host:port")
    return parts


def _shown(parts: SplitResult) -> str:
    """The address without user and password."""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
