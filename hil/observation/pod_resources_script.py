"""How the bytes of :mod:`hil.observation.pod_resources` reach the kubelet's socket: POSIX shell.

A client must not hang up before the answer is whole: the server would drop it. So perl and python3
follow the frames by their lengths, and end with the answer; socat cannot, and waits for a fixed
time. None of them needs a module beyond the smallest package there is of it (Debian's
``perl-base``, ``python3-minimal``).
"""

from __future__ import annotations

import base64
from shlex import quote
from typing import Final

from hil.observation.pod_resources import LIMIT, NO_ANSWER, request

#: Seconds to wait for the kubelet's answer, and the fixed time that socat waits.
_SECONDS: Final = 10
_SOCAT_SECONDS: Final = 5

# Arguments: seconds and bytes at most. A frame begins with its length in three bytes, its type and
# its flags. The answer ends with the flag END_STREAM (1) of DATA (0) or HEADERS (1), or else with
# RST_STREAM (3) or GOAWAY (7).
_PERL: Final = r"""
use Socket;
sub none { print "!@_"; exit }
$SIG{ALRM} = sub { none("the kubelet does not answer within $ARGV[0] s") }; alarm $ARGV[0];
$/ = undef; $request = <STDIN>;
socket($s, AF_UNIX, SOCK_STREAM, 0) && connect($s, sockaddr_un("kubelet.sock"))
  or none("the kubelet cannot be asked: $!");
syswrite $s, $request;
($answer, $seen, $whole) = ("", 0, 0);
until ($whole || length $answer >= $ARGV[1]) {
  sysread($s, $answer, 65536, length $answer) or last;
  while (length $answer >= $seen + 9) {
    ($high, $low, $type, $flags) = unpack "CnCC", substr $answer, $seen, 5;
    $next = $seen + 9 + $high * 65536 + $low;
    last if length $answer < $next;
    $seen = $next;
    $whole = 1 if $type < 2 && $flags & 1 || $type == 3 || $type == 7;
  }
}
print $answer;
"""
_PYTHON: Final = r"""
import signal, socket, sys
seconds, limit = map(int, sys.argv[1:])
def none(why):
    sys.stdout.write("!" + why); sys.stdout.flush(); sys.exit()
def late(*_):
    none("the kubelet does not answer within %d s" % seconds)
signal.signal(signal.SIGALRM, late); signal.alarm(seconds)
s = socket.socket(socket.AF_UNIX)
try:
    s.connect("kubelet.sock")
    s.sendall(sys.stdin.buffer.read())
except OSError as error:
    none("the kubelet cannot be asked: %s" % error.strerror)
answer, seen, whole = bytearray(), 0, False
while not whole and len(answer) < limit:
    more = s.recv(65536)
    if not more:
        break
    answer += more
    while len(answer) >= seen + 9:
        kind, flags = answer[seen + 3:seen + 5]
        after = seen + 9 + int.from_bytes(answer[seen:seen + 3], "big")
        if len(answer) < after:
            break
        seen = after
        whole = whole or (kind < 2 and flags & 1 == 1) or kind in (3, 7)
sys.stdout.buffer.write(answer)
"""


def ask(root_dir: str, *, seconds: int = _SECONDS) -> str:
    """A script that writes the answer of the kubelet with this ``--root-dir`` to stdout, in base64;
    without one, :data:`hil.observation.pod_resources.NO_ANSWER` and the reason. Bounded in time and
    in size; leaves nothing behind."""
    folder = f"{root_dir.rstrip('/')}/pod-resources"
    asked = base64.b64encode(request()).decode()
    bounds = f"{seconds} {LIMIT}"
    return f"""
pin_request() {{ printf %s {quote(asked)} | base64 -d; }}
pin_has() {{ command -v "$1" >/dev/null 2>&1; }}
pin_ask() {{ # by a short name: a socket's whole path may be too long for its address
  if ! cd {quote(folder)} || ! [ -S kubelet.sock ]; then
    printf %s {quote(f"{NO_ANSWER}there is no socket {folder}/kubelet.sock")}
  elif pin_has perl; then
    pin_request | perl -e {quote(_PERL)} {bounds}
  elif pin_has python3; then
    pin_request | python3 -c {quote(_PYTHON)} {bounds}
  elif pin_has socat; then
    {{ pin_request; sleep {min(seconds, _SOCAT_SECONDS)}; }} |
      socat -t 1 - UNIX-CONNECT:kubelet.sock
  else
    printf %s {quote(f"{NO_ANSWER}the node has neither perl nor python3 nor socat to ask with")}
  fi
}}
(pin_ask) 2>/dev/null | head -c {LIMIT} | base64
"""
