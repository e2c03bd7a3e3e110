"""The script that runs on a node: POSIX shell and awk, no root, nothing written, nothing installed.

It prints one stream, which :mod:`topologies.capturing.stream` reads::

    pinproof-capture 1
    kernel 6.1.0-56-cloud-amd64
    arch x86_64
    F sys/devices/system/cpu/online      a file; its lines follow, each after a blank
     0-15
    X sys/devices/system/cpu/...         a file, or the rest of a group, that cannot be read
    E it has no awk                      why there is no capture: the first line and the last
    L                                    links follow, as `ls -ldn` shows them
     lrwxrwxrwx 1 0 0 0 Nov 21 09:34 sys/devices/system/cpu/cpu0/node0 -> ../../node/node0
    end

The stream is text, because sysfs states 4096 bytes for every file: GNU tar pads it with NULs,
busybox tar gives up, and /proc/cpuinfo, which states 0 bytes, comes out empty. The shell's own
``read`` is not used: it reads one byte at a time, and some kernels then report the end of the file
for the maps of CPUs (seen on 6.18). One awk reads a group of files, so that a machine of 512 CPUs
with its 30,000 files starts two dozen processes. mawk dies of a file that gives EIO: the rest of
its group is then missing.
"""

from __future__ import annotations

from typing import Final

from topologies.capturing.scope import FILES, LINKS, glob

#: First and last line of a complete stream.
FIRST: Final = "pinproof-capture 1"
LAST: Final = "end"

_TEMPLATE: Final = r"""capture() {
  LC_ALL=C; export LC_ALL; unset CDPATH; IFS=' '
  echo '@FIRST@'
  cd "$1" || { echo 'E it has no such folder'; return; }
  echo | awk '{ exit 0 }' || { echo 'E it has no awk'; return; }
  printf 'kernel %s\n' "$(cat proc/sys/kernel/osrelease)"
  printf 'arch %s\n' "$(uname -m)"
@FILES@
  echo L
@LINKS@
  echo '@LAST@'
}
files() {
  for path; do
    [ ! -f "$path" ] || { [ -r "$path" ] && echo "F $path"; } || echo "X $path"
  done | awk '
    { print }
    /^F/ { path = substr($0, 3); while ((getline text < path) > 0) print " " text; close(path) }
  ' || echo "X $1 and others"
}
links() {
  [ ! -L "$1" ] || ls -ldn "$@" | awk '{ print " " $0 }'
}
capture "${1:-/}" </dev/null 2>/dev/null
"""


def script() -> str:
    """The script; its first argument is the folder that holds ``sys`` and ``proc``, ``/`` without
    one. The shell has read all of it before the first command runs, so it may come in on stdin."""
    groups: dict[str, list[str]] = {}
    for pattern in FILES:
        groups.setdefault(pattern.rpartition("/")[0], []).append(glob(pattern))
    files = "\n".join(f"  files {' '.join(globs)}" for globs in groups.values())
    links = "\n".join(f"  links {glob(pattern)}" for pattern in LINKS)
    text = _TEMPLATE.replace("@FILES@", files).replace("@LINKS@", links)
    return text.replace("@FIRST@", FIRST).replace("@LAST@", LAST)
