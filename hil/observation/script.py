"""The script of an observation: POSIX shell, read-only, few processes.

Each section begins with a line that holds a random marker, so no file's content can pass for
another section. Every value that goes into the script is quoted.

On a machine without hardware virtualisation, starting a program costs ten milliseconds and more. So
the shell itself reads whatever it can.
"""

from __future__ import annotations

import secrets
from shlex import quote
from typing import Final

from hil.observation import pod_resources_script
from hil.observation.places import OURS, Places
from hil.observation.seen import Process


def marker() -> str:
    """The random marker of one observation's sections."""
    return f"@@pin-{secrets.token_hex(8)}"


_FUNCTIONS: Final = r"""
LC_ALL=C; export LC_ALL; pin_since=; pin_dead=; pin_asked=0; pin_failed=; pin_awaited=
pin_cr=$(printf '\r')
pin_s() { printf '\n%s %s\n' "$pin_m" "$*"; }
pin_now() { read -r pin_t pin_x </proc/uptime; pin_t=${pin_t%.*}; }
pin_until() { # SECONDS COMMAND...: until it succeeds; 1 where it never did
  pin_now; pin_end=$((pin_t + $1)); shift
  pin_tell
  while ! "$@"; do
    pin_now; [ "$pin_t" -lt "$pin_end" ] || return 1
    pin_wait
  done
}
pin_wait() { # 0.3 s, or less: as soon as what can be seen without a program has changed
  for pin_w in 1 2 3; do
    sleep 0.1
    pin_y=$pin_shown; pin_tell
    [ "$pin_y" = "$pin_shown" ] || return 0
  done
}
pin_tell() { # in pin_shown: which tasks the runtime has, and whether there is what a start makes
  pin_shown=
  [ ! -e "${pin_awaited:-/}" ] || pin_shown=$pin_awaited
  for pin_f in $pin_configs; do
    [ -s "${pin_f%/*}/init.pid" ] || [ -s "${pin_f%/*}/pidfile" ] && pin_shown="$pin_shown $pin_f"
  done
}
pin_get() { # the kubelet's list of its pods
  [ -n "$pin_url" ] || return 1
  if command -v curl >/dev/null 2>&1; then
    curl -ksf --max-time 5 "$pin_url"
  elif command -v wget >/dev/null 2>&1; then
    wget -qO- -T 5 --no-check-certificate "$pin_url" 2>/dev/null
  elif command -v bash >/dev/null 2>&1; then
    bash -c 'u=${1#http://}; [ "$u" != "$1" ] || exit 1; h=${u%%/*}
      exec 3<>"/dev/tcp/${h%:*}/${h#*:}" || exit 1
      printf "GET /%s HTTP/1.0\r\n\r\n" "${u#*/}" >&3
      while IFS= read -r l <&3; do [ "$l" = "$2" ] && break; done
      exec cat <&3' - "$pin_url" "$pin_cr" 2>/dev/null
  else
    return 1
  fi
}
pin_ours() { grep -lsE "$pin_mine" $pin_configs; } # config.json of the run's containers
pin_either() { # UID: in pin_u a pattern for it, written with - or with _
  pin_u=$1
  while :; do
    case $pin_u in *-*) pin_u=${pin_u%%-*}.${pin_u#*-} ;; *) return ;; esac
  done
}
pin_running() { # UID NUMBER: so many tasks of the pod run, its sandbox counted
  pin_k=0; pin_either "$1"
  for pin_f in $(grep -lsE -e "$pin_u" $pin_configs); do
    [ -s "${pin_f%/*}/init.pid" ] || [ -s "${pin_f%/*}/pidfile" ] && pin_k=$((pin_k + 1))
  done
  [ "$pin_k" -ge "$2" ]
}
pin_phase() { # UID: the phase that the kubelet gives the pod
  pin_j=$(pin_get) || return 1
  case $pin_j in *"\"uid\":\"$1\""*) ;; *) return 1 ;; esac
  pin_j=${pin_j#*"\"uid\":\"$1\""}; pin_j=${pin_j#*'"phase":"'}; printf '%s' "${pin_j%%\"*}"
}
pin_started() { # UID NUMBER: it runs, or is rejected; the kubelet, which is busy, is asked seldom
  case " $pin_failed " in *" $1 "*) return 0 ;; esac
  pin_running "$1" "$2" && return 0
  pin_asked=$((pin_asked + 1))
  [ $((pin_asked % 4)) = 3 ] && [ "$(pin_phase "$1")" = Failed ] && pin_failed="$pin_failed $1"
}
pin_unlisted() {
  pin_j=$(pin_get) || return 0
  case $pin_j in *"\"uid\":\"$1\""*) return 1 ;; esac
}
pin_gone() { ! pin_running "$1" 1 && pin_unlisted "$1"; }
pin_service() { # as it was reported last time, as long as its main process is the one of that time
  if [ -n "$pin_born" ] && pin_birth "$pin_pid" && [ "$pin_b" = "$pin_born" ]; then
    pin_v=$pin_was
  else
    pin_v=$(systemctl show -p ActiveState -p SubState -p MainPID -p NRestarts \
      -p ExecMainStatus -p ExecMainCode -p InvocationID "$pin_unit")
    pin_pid=${pin_v#*MainPID=}; pin_pid=${pin_pid%%[!0-9]*}
    pin_birth "$pin_pid"
  fi
  printf '%s\n' "$pin_v"
  [ -z "$pin_b" ] || pin_s born "$pin_b"
}
pin_birth() { # PID: in pin_b when it was started, if it is a process of the unit
  pin_b=
  [ "${1:-0}" != 0 ] || return 1
  while IFS= read -r pin_l; do
    case $pin_l in */"$pin_unit"*) pin_b=unit ;; esac
  done 2>/dev/null <"/proc/$1/cgroup"
  [ -n "$pin_b" ] || return 1
  pin_b=; IFS= read -r pin_l 2>/dev/null <"/proc/$1/stat" || return 1
  set -- ${pin_l##*) }; shift 19; pin_b=$1
}
pin_main() { systemctl show -p MainPID --value "$pin_unit"; }
pin_log() { # the last start's lines; those of all starts since pin_since, where that is set
  if [ -n "$pin_since" ]; then
    set -- "_SYSTEMD_UNIT=$pin_unit" "--since=@$pin_since"
  else
    pin_i=$(systemctl show -p InvocationID --value "$pin_unit")
    set -- "_SYSTEMD_INVOCATION_ID=${pin_i:-none}"
  fi
  journalctl --no-pager -q -o cat -n 400 "$@"
}
pin_ended() { # how it ended for the first time since pin_since: "exited 1"
  [ -z "$pin_since" ] ||
    journalctl --no-pager -q -o cat "UNIT=$pin_unit" "--since=@$pin_since" | sed -n \
      's/^.*: Main process exited, code=\([a-z]*\), status=\([0-9]*\).*/\1 \2/p' | head -n 1
}
pin_tasks() { # of the run's containers: "PID FILE" a line
  for pin_f in ${pin_all:-$(pin_ours)}; do
    pin_d=${pin_f%/config.json}
    for pin_p in "$pin_d/init.pid" "$pin_d/pidfile"; do
      [ -r "$pin_p" ] || continue
      pin_n=; read -r pin_n <"$pin_p"
      case $pin_n in '' | *[!0-9]*) ;; *) [ -d "/proc/$pin_n" ] && echo "$pin_n $pin_d" ;; esac
    done
  done
}
pin_cgroup() { # PID: pin_cs, pin_cq: its paths in the cpuset and in the cpu hierarchy
  pin_cs=; pin_cq=; pin_cu=
  while IFS=: read -r pin_h pin_c pin_p; do
    case ",$pin_c," in ,,) pin_cu=$pin_p ;; esac
    case ",$pin_c," in *,cpuset,*) pin_cs=$pin_p ;; esac
    case ",$pin_c," in *,cpu,*) pin_cq=$pin_p ;; esac
  done 2>/dev/null <"/proc/$1/cgroup"
  [ -n "$pin_cs" ] || pin_cs=$pin_cu
  [ -n "$pin_cq" ] || pin_cq=$pin_cu
}
pin_container() { # PID: cpusets and quotas at every level up, the affinity of every task
  pin_cgroup "$1"
  echo "cpuset $pin_cs"; echo "cpu $pin_cq"
  pin_q="/proc/$1/task/[0-9]*/status"
  while read -r pin_x; do pin_q="$pin_q /proc/$pin_x/task/[0-9]*/status"; done \
    2>/dev/null <"$pin_mount$pin_cs/cgroup.procs"
  set --
  pin_p=${pin_cs%/}
  while :; do
    set -- "$@" "$pin_mount$pin_p/cpuset.cpus" "$pin_mount$pin_p/cpuset.cpus.effective" \
      "$pin_mount$pin_p/cpuset.effective_cpus"
    [ -n "$pin_p" ] || break
    pin_p=${pin_p%/*}
  done
  pin_p=${pin_cq%/}
  while [ -n "$pin_p" ]; do
    set -- "$@" "$pin_cpu$pin_p/cpu.max" "$pin_cpu$pin_p/cpu.cfs_quota_us" \
      "$pin_cpu$pin_p/cpu.cfs_period_us"
    pin_p=${pin_p%/*}
  done
  # No line of a cgroup's file has a colon in it, every line of a status file has.
  grep -sH -e '^Cpus_allowed_list:' -e '^[^:]*$' -- "$@" $pin_q
}
pin_containers() {
  pin_all=$(pin_ours)
  pin_s names
  [ -z "$pin_all" ] || grep -osHE '"io\.kubernetes\.[a-zA-Z.-]+":"[^"]*"' $pin_all
  pin_tasks | while read -r pin_n pin_d; do
    pin_s container "$pin_n" "$pin_d"
    pin_container "$pin_n" </dev/null
  done
}
pin_spin() { # let every container of the run spin, and see where its tasks run
  pin_list=$(pin_tasks)
  echo "$pin_list" | while read -r pin_n pin_d; do
    [ -z "$pin_n" ] || kill -USR1 "$pin_n" 2>/dev/null
  done
  pin_i=0
  while [ "$pin_i" -lt 12 ]; do
    echo "$pin_list" | while read -r pin_n pin_d; do
      for pin_f in "/proc/$pin_n/task"/[0-9]*/stat; do
        IFS= read -r pin_l 2>/dev/null <"$pin_f" || continue
        set -- ${pin_l##*) }
        [ "$1" = R ] && echo "$pin_n ${37}"
      done
    done
    pin_i=$((pin_i + 1)); sleep 0.05
  done | sort -u
}
pin_changed() { # SUM: what can be seen has another one, its markers left out
  pin_all=
  case $(pin_m=; pin_seen | sha256sum) in "$1"*) return 1 ;; esac
}
pin_seen() {
  pin_s online; read -r pin_l </sys/devices/system/cpu/online; echo "$pin_l"
  pin_s service; pin_service
  # The kubelet writes its state file, then speaks to the runtime, then reports the pod: looked at
  # the other way round, whatever has an effect here is here itself.
  if pin_j=$(pin_get); then pin_s pods; printf '%s' "$pin_j"; fi
  pin_containers
  if [ -r "$pin_state" ]; then pin_s state; cat "$pin_state"; fi
}
pin_look() {
  pin_all=
  pin_text=$(pin_seen; echo .)
  pin_text=${pin_text%.}
  printf '%s' "$pin_text"
  pin_s seen
  pin_s boot; IFS= read -r pin_l </proc/sys/kernel/random/boot_id; echo "$pin_l"
  pin_s files; pin_files
}
"""


#: Inode, size, time of its last change (which no program can set), and path.
_FILE: Final = "'%i %s %Z %n'"


def _settings(places: Places, mark: str, known: Process | None) -> str:
    configs = " ".join(_glob(each) for each in places.runtime_dirs)
    mine = rf'"io\.kubernetes\.(cri\.sandbox-name|pod\.name)":"{OURS}'
    values = {
        "pin_m": mark,
        "pin_unit": places.unit,
        "pin_state": places.state_file,
        "pin_mount": places.mount.rstrip("/"),
        "pin_cpu": places.cpu_mount.rstrip("/"),
        "pin_url": places.pods_url,
        "pin_configs": configs,
        "pin_mine": mine,
        "pin_pid": str(known.pid) if known else "",
        "pin_born": known.born if known else "",
        "pin_was": known.service if known else "",
    }
    return "\n".join(f"{name}={quote(value)}" for name, value in values.items())


def _glob(pattern: str) -> str:
    """A pattern that the shell expands: nothing but plain names and ``*`` may be in it."""
    plain = pattern.replace("/", "").replace("*", "")
    if not all(one.isalnum() or one in "._-" for one in plain):
        raise ValueError(f"not a plain folder: {pattern!r}")
    return f"{pattern}/config.json"


def look(
    places: Places,
    mark: str,
    *,
    known: Process | None = None,
    before: str = "",
    goal: str = "",
    spin: bool = False,
    ask: bool = False,
    log: int = 0,
) -> str:
    """The script of one observation. ``known``: the kubelet's process as the observation before
    found it; while it lives, its service manager is not asked again. ``before`` runs first, as the
    body of a shell function that may use the functions above. ``goal`` is a command of these
    (``pin_until 10 pin_gone UID``), whose failure is only noted. ``ask``: query the pod-resources
    socket. ``log``: print the kubelet's last lines too: 1 where it is down, 2 always.
    """
    files = " ".join(map(quote, places.watched))
    stat = f"pin_files() {{ {f'stat -L -c {_FILE} {files} 2>/dev/null' if files else ':'}; }}"
    lines = [_settings(places, mark, known), _FUNCTIONS, stat, f"pin_before() {{\n{before}\n:\n}}"]
    lines += ["pin_s before", "pin_before 2>&1 </dev/null", 'pin_s status "$?"']
    if goal:
        lines.append(f"if {goal}; then pin_s reached; else pin_s late; fi")
    if spin:
        lines += ["pin_s ran", "pin_spin"]
    if ask:
        lines += ["pin_s answer", pod_resources_script.ask(places.root_dir)]
    lines.append("pin_look")
    if log:
        words = "pin_s log; pin_log; pin_s ended; pin_ended"
        lines.append(
            words if log > 1 else f"case $pin_dead$pin_text in *MainPID=0*) {words} ;; esac"
        )
    lines.append("pin_s end")
    return "\n".join(lines)
