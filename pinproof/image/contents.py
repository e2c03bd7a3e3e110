"""What the image has beside Python packages: packages of Debian, a user, and how it is started."""

from __future__ import annotations

import re
from typing import Any, Final

#: No apt and no documentation. grpcio, which talks to a kubelet, needs the library of C++.
PACKAGES: Final = ("libstdc++6", "python3")
#: A kubelet is built from the Go module, which is fetched by TLS.
PACKAGES_WITH_GO: Final = (*PACKAGES, "ca-certificates")

#: Of mmdebstrap. It takes the place of package usrmerge, which needs 54 MB of Perl.
MERGED: Final = "/usr/share/mmdebstrap/hooks/maybe-merged-usr"

#: The user of the image, which has no rights.
USER: Final = 65532
#: Where that user may write; its home.
HOME: Final = "/work"
#: The kubelet that ``--kubelet`` puts into the image.
KUBELET: Final = "/usr/local/bin/kubelet"

#: Runs as root of the new tree ($1). ``@PYTHON@`` is the minor release that the packages are for.
HOOK: Final = """\
set -e
tree=$1
found=$(chroot "$tree" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ "$found" != @PYTHON@ ]; then
  echo "E: the image has Python $found, and its libraries are for @PYTHON@" >&2
  exit 1
fi
chroot "$tree" python3 -m compileall -q --invalidation-mode unchecked-hash @LIBRARIES@
echo 'pinproof:x:@USER@:@USER@::@HOME@:/usr/sbin/nologin' >>"$tree/etc/passwd"
echo 'pinproof:x:@USER@:' >>"$tree/etc/group"
mkdir -m 1777 "$tree@HOME@"
rm -f "$tree/etc/hostname" "$tree/etc/resolv.conf"
rm -rf "$tree"/var/cache/* "$tree"/var/log/*
"""

_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST: Final = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]+)?"
_NAME: Final = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)


def is_image_name(text: str) -> bool:
    """Whether a container runtime takes it: ``HOST:PORT/PATH:TAG``, with a digest or without.
    Source: the grammar of github.com/distribution/reference."""
    return len(text) <= 255 and _NAME.fullmatch(text) is not None


def hook(python: str, libraries: str) -> str:
    """The script for Python ``python`` and the folder ``libraries``."""
    values = {"PYTHON": python, "LIBRARIES": libraries, "USER": str(USER), "HOME": HOME}
    text = HOOK
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def configuration(version: str) -> dict[str, Any]:
    """How a container of the image is started; see the OCI image specification, ``config``."""
    return {
        "User": f"{USER}:{USER}",
        "WorkingDir": HOME,
        "Env": [
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            f"HOME={HOME}",
            "LANG=C.UTF-8",
            "PYTHONDONTWRITEBYTECODE=1",
        ],
        "Entrypoint": ["pinproof"],
        "Labels": {
            "org.opencontainers.image.title": "pinproof",
            "org.opencontainers.image.version": version,
            "org.opencontainers.image.licenses": "Apache-2.0",
        },
    }
