#!/bin/sh
# Restores a node: lease, journal, dead-man timer, fingerprint. It lies in /var/lib/pinproof on the
# node, and works without the runner. As root:
#
#   sh /var/lib/pinproof/node.sh restore     undo all that a run left, and tell what differs
#   sh /var/lib/pinproof/node.sh status      who holds the node, and what was changed
#
# Needs a POSIX shell, flock, base64, sha256sum and what every system has. Whenever it is killed,
# calling it again finishes the work: a change is in the journal, on disk, before it is made; one
# rename removes the journal after all of it was undone.
#
# Exit status: 0 done, 70 wrong call, 71 cannot be changed, 73 another run holds the node,
# 74 nothing can be written, 75 the lease is lost, 76 not as it was before.

umask 077
LC_ALL=C
export LC_ALL
D=${0%/*}
R=${D%/var/lib/pinproof}
J=$D/journal
mode=${1:-}
newline='
'

say() { printf 'pinproof: %s\n' "$*" >&2; }
die() {
  status=$1
  shift
  say "$*"
  exit "$status"
}
# No here-document: some shells need room on a disk for one.
decoded() { printf %s "$1" | base64 -d; }
path_of() { # $path: as it stands, or as base64
  case $1 in /*) path=$1 ;; *) path=$(decoded "$1") ;; esac
}
durable() { sync "$@" 2>/dev/null || sync; }
bounded() { if command -v timeout >/dev/null; then timeout -k 1 "$@"; else shift; "$@"; fi; }
systemd() { [ -d "$R/run/systemd/system" ] && command -v systemctl >/dev/null; }

# --- time: seconds since boot, which no program sets, in $time; the boot id in $boot
boot() {
  boot=/proc/sys/kernel/random/boot_id
  if [ -r "$R$boot" ]; then read -r boot <"$R$boot"; else read -r boot <$boot; fi
}
now() {
  if [ -r "$R/proc/uptime" ]; then read -r time _ <"$R/proc/uptime"; else read -r time _ </proc/uptime; fi
  time=${time%%.*}
}

# --- one at a time
lock() {
  # A step holds the lock until its script has ended: this process inherits its open file.
  [ -n "${PINPROOF_STEP:-}" ] || exec 9>>"$D/lock" || die 74 "cannot write $D"
  tries=0
  until flock -n 9; do
    [ $tries -lt 60 ] || die 73 "another command works on this node"
    tries=$((tries + 1))
    case $mode:${1:-} in leave:* | *:force) end_step ;; *) lease || end_step ;; esac
    sleep 1
  done
  # If the node was restored while this waited, the lock is that of a removed folder.
  if [ ! -f "$D/node.sh" ]; then
    [ "$mode" != restore ] || { say "nothing to undo: it was undone meanwhile" && exit 0; }
    die 75 "this node was restored meanwhile"
  fi
  for entry in "$D/done" "$D/new" "$D/begun"; do
    [ ! -e "$entry" ] || rm -rf "$entry"
  done
}

end_step() { # of a dead run: kill the step's whole session, as long as it holds the lock
  read -r step 2>/dev/null <"$D/step" || return 0
  case $step in '' | *[!0-9]*) return 0 ;; esac
  [ "/proc/$step/fd/9" -ef "$D/lock" ] || return 0
  say "a step of a run that is dead is ended"
  kill -9 "-$step"
}

# --- lease: owner, boot, end, patience; lease() puts the seconds that it lasts into $left
holder=
looker=
lease() {
  holder='' lease_boot='' lease_end=0 patience=0 left=0
  [ -f "$D/lease" ] && read -r holder lease_boot lease_end patience <"$D/lease"
  [ -n "$holder" ] || return 1
  boot
  now
  # No run could renew its lease during a reboot: the lease lasts its full time from then on.
  if [ "$lease_boot" = "$boot" ]; then left=$((lease_end - time)); else left=$((patience - time)); fi
  [ "$left" -gt 0 ]
}
renew() {
  boot
  now
  # A renewal holds no lock, so each process has a draft of its own.
  echo "$1 $boot $((time + $2)) $2" >"$D/lease.$$" && mv -f "$D/lease.$$" "$D/lease"
}
mine() {
  lease
  [ "$holder" = "$1" ] && [ -d "$J" ] || die 75 "the lease is lost: this node is held by ${holder:-nobody}"
  # Restoring goes on with a full disk: it needs no more room than there was.
  renew "$1" "$patience" || case $mode in
    leave | undo) ;;
    *) die 74 "cannot write $D: is the disk full?" ;;
  esac
}
others() { lease && [ "$holder" != "$1" ]; }

# --- journal
kernel() { case ${1#"$R"} in /sys/* | /proc/*) return 0 ;; *) return 1 ;; esac; }
journalled() { # path; the entry is then in $entry
  entry=$(grep -lxF -e "$1" "$J"/[0-9]*/path 2>/dev/null)
  entry=${entry%%"$newline"*}
  entry=${entry%/path}
  [ -n "$entry" ]
}
commit() { # the folder $D/new becomes the next entry
  set -- "$J"/[0-9]*
  last=
  for entry; do last=$entry; done
  last=${last##*/}
  last=${last#"${last%%[!0]*}"}
  case $last in *[!0-9]* | '') last=0 ;; esac
  next=$(printf '%06d' $((last + 1)))
  entry=$J/$next
  durable "$D"/new/* "$D/new" && mv "$D/new" "$entry" && durable "$J" ||
    die 74 "the journal cannot be written: is the disk full?"
}
prepare() { # kind
  rm -rf "$D/new"
  mkdir "$D/new" && echo "$1" >"$D/new/kind" ||
    die 74 "the journal cannot be written: is the disk full?"
}
keep() { # absolute path, with $R; the entry is then in $entry
  journalled "$1" && return 0
  prepare file
  printf %s "$1" >"$D/new/path" || die 74 "the journal cannot be written: is the disk full?"
  if [ -e "$1" ]; then
    [ -f "$1" ] || die 71 "${1#"$R"} is no file"
    if kernel "$1"; then cat "$1" >"$D/new/content"; else cp -a "$1" "$D/new/content"; fi ||
      die 74 "the journal cannot be written: is the disk full?"
  fi
  commit
}
target() { # $path: what a path leads to
  path=$R$1
  [ ! -L "$path" ] || path=$(readlink -f "$path")
}
folder() { # make the folder of a file, journalled
  parent=${1%/*}
  [ -d "$parent" ] && return 0
  top=$parent
  while [ ! -d "${top%/*}" ]; do top=${top%/*}; done
  prepare folder
  printf %s "$top" >"$D/new/path" || die 74 "the journal cannot be written: is the disk full?"
  commit
  (umask 022 && mkdir -p "$parent") || die 71 "${parent#"$R"} cannot be made"
}
put() { # path, mode, marks of its entry, and the command that prints its content
  named=$1 bits=$2 marks=$3
  shift 3
  target "$named"
  if kernel "$path"; then
    [ -e "$path" ] || die 71 "there is no $named"
    keep "$path"
    "$@" >"$path" || die 71 "$named refuses what was written to it"
    return 0
  fi
  keep "$path"
  kept=$entry
  case $marks in *installed*) classes ;; esac
  for mark in $marks; do
    printf '' >"$kept/$mark" || die 74 "the journal cannot be written: is the disk full?"
  done
  folder "$path"
  fresh=${path%/*}/.pinproof.new
  [ ! -e "$fresh" ] || rm -f "$fresh"
  if [ -e "$path" ]; then cp -a "$path" "$fresh"; else printf '' >"$fresh" && chmod "$bits" "$fresh"; fi &&
    "$@" >"$fresh" && owned "$kept" "$fresh" && durable "$fresh" && mv -f "$fresh" "$path" &&
    return 0
  rm -f "$fresh"
  die 71 "$named cannot be written: is the disk full?"
}
back() { # path: as it was, and the run goes on
  target "$1"
  journalled "$path" || return 0
  failed=
  undone "$entry"
  [ -z "$failed" ] || die 71 "$1 cannot be put back: is the disk full?"
}
owned() { # entry, file: a pod's uid is noted as the run's own before the kubelet sees its manifest
  is_manifest "$1" || return 0
  sed -n 's/.*"uid": *"\([^"]*\)".*/\1/p' "$2" >>"$J/ours" ||
    die 74 "the journal cannot be written: is the disk full?"
}
away() { # path
  target "$1"
  keep "$path"
  printf '' >"$entry/changed" || die 74 "the journal cannot be written: is the disk full?"
  rm -f "$path" || die 71 "$1 cannot be removed"
}
cpusets() { # where cpusets are
  for mount in "$R/sys/fs/cgroup/cpuset" "$R/sys/fs/cgroup"; do
    [ -f "$mount/cpuset.cpus" ] || [ -f "$mount/cgroup.controllers" ] || continue
    echo "$mount"
    return 0
  done
}
snapshot() { # of all cpusets, once, before the first CPU changes
  [ -f "$J/cpusets" ] && return 0
  mount=$(cpusets)
  printf '' >"$D/cpusets"
  if [ -n "$mount" ]; then
    find "$mount" -name cpuset.cpus -type f -exec awk '{ print $0 "\t" FILENAME }' {} + \
      >"$D/cpusets" 2>/dev/null
    find "$mount" -name cpuset.cpus.partition -type f 2>/dev/null | while read -r f; do
      p=$(cat "$f" 2>/dev/null)
      case $p in member | '' | *invalid*) ;; *) printf '%s\t%s\n' "$p" "$f" ;; esac
    done >"$J/partitions"
    # Version 1 moves tasks away from a cpuset that became empty, and never back.
    if [ -f "$mount/cpuset.cpus" ] && [ ! -f "$mount/cgroup.controllers" ]; then
      find "$mount" -mindepth 1 -name cgroup.procs -type f 2>/dev/null | while read -r f; do
        while read -r pid; do printf '%s\t%s\n' "$pid" "$f"; done <"$f"
      done >"$J/tasks" 2>/dev/null
    fi
  fi
  durable "$D/cpusets" && mv "$D/cpusets" "$J/cpusets" && durable "$J" ||
    die 74 "the journal cannot be written: is the disk full?"
}
switch() { # CPU, 0 or 1
  file=$R/sys/devices/system/cpu/cpu$1/online
  [ -f "$file" ] || die 71 "CPU $1 cannot be switched: there is no ${file#"$R"}"
  snapshot
  if ! journalled "$file"; then
    prepare cpu
    printf %s "$file" >"$D/new/path" && echo "$1" >"$D/new/cpu" && cat "$file" >"$D/new/content" ||
      die 74 "the journal cannot be written: is the disk full?"
    commit
  fi
  echo "$2" 2>/dev/null >"$file" || die 71 "the kernel refuses to switch CPU $1"
  read -r is <"$file"
  [ "$is" = "$2" ] || die 71 "CPU $1 is not switched, though the kernel did not refuse"
}
# --- memory settings of the QoS classes' cgroups, which the next kubelet leaves as one wrote them
class_settings() { # files in which systemd remembers it
  for f in "$R"/run/systemd/*/kubepods.slice.d/* "$R"/run/systemd/*/kubepods-b*.slice.d/*; do
    case $f in *-pod*) ;; *) [ ! -f "$f" ] || echo "$f" ;; esac
  done
}
classes() { # once, before another kubelet's program is there
  [ -f "$J/classes" ] && return 0
  mount=$(cpusets)
  {
    class_settings
    [ -z "$mount" ] || find "$mount"/kubepods* -maxdepth 2 ! -path '*pod[0-9a-f]*' \
      \( -name memory.min -o -name memory.low -o -name memory.high \) 2>/dev/null |
      while read -r f; do printf '%s\t%s\n' "$f" "$(cat "$f")"; done
  } >"$D/classes"
  durable "$D/classes" && mv "$D/classes" "$J/classes" && durable "$J" ||
    die 74 "the journal cannot be written: is the disk full?"
}
unlearned() { # the settings of classes() again, while no kubelet runs
  [ -f "$J/classes" ] || return 0
  class_settings | while read -r f; do grep -qxF -e "$f" "$J/classes" || rm -f "$f"; done
  ! systemd || systemctl daemon-reload 2>/dev/null
  while IFS='	' read -r f was; do
    [ -z "$was" ] || [ "$(cat "$f" 2>/dev/null)" = "$was" ] || echo "$was" 2>/dev/null >"$f"
  done <"$J/classes"
  :
}
claim() { # namespace: from now on its pods are ours
  echo "$1" >>"$J/namespaces" && durable "$J/namespaces" ||
    die 74 "the journal cannot be written: is the disk full?"
}
claimed() { # the uids of pods that an API server gave us are known by the folders of their logs
  [ -s "$J/namespaces" ] || return 0
  while read -r space; do
    for pod in "$R/var/log/pods/${space}_"*; do
      [ ! -d "$pod" ] || grep -qxF -e "${pod##*_}" "$J/ours" 2>/dev/null ||
        echo "${pod##*_}" 2>/dev/null >>"$J/ours"
    done
  done <"$J/namespaces"
}
note() { # script as base64
  prepare note
  decoded "$1" >"$D/new/content" || die 74 "the journal cannot be written: is the disk full?"
  commit
}
apply() { # changes on stdin, one a line
  while read -r what one two three; do
    case $what in
      file) path_of "$one" && put "$path" "$two" changed decoded "$three" ;;
      install) path_of "$two" && source=$R$path && path_of "$one" && put "$path" 755 "changed installed" cat "$source" ;;
      back) path_of "$one" && back "$path" ;;
      remove) path_of "$one" && away "$path" ;;
      keep) path_of "$one" && target "$path" && keep "$path" ;;
      cpu) switch "$one" "$two" ;;
      note) note "$one" ;;
      claim) claim "$one" ;;
      *) die 70 "no such change: $what" ;;
    esac || exit $?
  done
}

# --- the kubelet, by the scripts that the journal holds
kubelet() { # start, stop, active
  [ -s "$J/$1" ] || return 0
  bounded 120 sh "$J/$1" </dev/null 2>/dev/null 9>&-
}
identity() { kubelet active; } # one line that names the running process; nothing if it is down

# --- fingerprint: one line for each fact, name and value
contents() ( # files and folders on stdin
  cd "$R/" || return
  set --
  while read -r path; do
    if [ -e ".$path" ] || [ -L ".$path" ]; then set -- "$@" ".$path"; else echo "$path	absent"; fi
  done
  [ $# -gt 0 ] || return 0
  # A folder and what is in it may both be named.
  {
    find "$@" \( -type f -o -type l \) -exec sha256sum {} + 2>/dev/null |
      awk '{ value = $1; sub(/^[^ ]+ [ *]/, ""); sub(/^\./, ""); print $0 "\tsha256:" value }'
    find "$@" -exec stat -c '%n as file	mode %a owner %u:%g' {} + 2>/dev/null | sed 's/^\.//'
  } | sort -u
)
without_ways() { # the lines but for those of pods through which a runner reaches a node
  set --
  for pod in "$R"/var/log/pods/pinproof-transport-*_transport_*; do
    [ ! -d "$pod" ] || set -- "$@" -e "${pod##*_}" -e "$(echo "${pod##*_}" | tr - _)"
  done
  if [ $# -gt 0 ]; then grep -vF "$@"; else cat; fi
}
fingerprint() {
  contents <"$1/watched"
  (
    cd "$R/sys/devices/system/cpu" 2>/dev/null || exit
    set --
    for f in present online cpu[0-9]*/online; do [ -f "$f" ] && set -- "$@" "$f"; done
    [ $# = 0 ] || awk '{ print "/sys/devices/system/cpu/" FILENAME "\t" $0 }' "$@"
  )
  if [ -s "$1/active" ]; then
    up=$(bounded 30 sh "$1/active" </dev/null 2>/dev/null 9>&-)
    printf 'kubelet\t%s\n' "$([ -n "$up" ] && echo up || echo down)"
  fi
  mount=$(cpusets)
  [ -f "$1/cgroups" ] && [ -n "$mount" ] &&
    find "$mount" -path "$mount/kubepods*" -name cpuset.cpus \
      -exec awk -v cut="${#R}" '{ print substr(FILENAME, cut + 1) "\t" $0 }' {} + 2>/dev/null |
    without_ways
  :
}
compare() { # before, after: one line for each difference
  # A container that is created again, as after a boot, has another name; its pod keeps its own.
  awk -F '\t' '
    function passes(name) { return name ~ /pod[0-9a-f][^\/]*\/.+\/cpuset\.cpus$/ }
    FNR == NR { was[$1] = $2; order[++n] = $1; next }
    { is[$1] = $2; if (!($1 in was) && !passes($1)) print $1 " was not there before" }
    END {
      for (i = 1; i <= n; i++) {
        name = order[i]
        if (!(name in is)) { if (!passes(name)) print name " is gone" }
        else if (is[name] != was[name]) print name ": was " was[name] ", is " is[name]
      }
    }' "$1" "$2"
}

# --- undoing
longer=0
settling() { # in $until: how long what was undone may take to show
  seconds=20
  [ ! -s "$J/settle" ] || read -r seconds <"$J/settle"
  now
  until=$((time + seconds))
}
failed=
undone() { # an entry that is a file: the path has its original content again
  path=$(cat "$1/path")
  if kernel "$path"; then
    [ -e "$path" ] && [ "$(cat "$path" 2>/dev/null)" != "$(cat "$1/content")" ] || return 0
    cat "$1/content" >"$path" 2>/dev/null || failed="$failed ${path#"$R"}"
    return 0
  fi
  fresh=${path%/*}/.pinproof.new
  rm -f "$fresh"
  if [ ! -e "$1/content" ]; then
    rm -f "$path" || failed="$failed ${path#"$R"}"
  elif differs "$1"; then
    (umask 022 && mkdir -p "${path%/*}")
    { cp -a "$1/content" "$fresh" && durable "$fresh" && mv -f "$fresh" "$path"; } 2>/dev/null ||
      { rm -f "$fresh"; cat "$1/content" >"$path"; } || failed="$failed ${path#"$R"}"
  fi
}
undrafted() { # path: a step that was killed before its rename leaves what it wrote
  kernel "$1" || rm -f "${1%/*}/.pinproof.new"
}
differs() {
  path=$(cat "$1/path")
  if [ -e "$1/content" ]; then
    [ -f "$path" ] && cmp -s "$1/content" "$path" &&
      [ "$(stat -c '%a %u %g %Y' "$1/content")" = "$(stat -c '%a %u %g %Y' "$path")" ] && return 1
    return 0
  fi
  [ -e "$path" ]
}
entries() { # of these kinds, last one first
  for entry in "$J"/[0-9]*; do
    [ -f "$entry/kind" ] && case " $1 " in *" $(cat "$entry/kind") "*) echo "$entry" ;; esac
  done | sort -r
}
is_state() { [ "$(cat "$1/path")" = "$R$(cat "$J/state" 2>/dev/null)" ]; }
is_manifest() {
  manifests='' named=''
  [ ! -f "$J/manifests" ] || IFS= read -r manifests <"$J/manifests"
  [ -n "$manifests" ] || return 1
  IFS= read -r named <"$1/path"
  case $named in "$R$manifests"/*) return 0 ;; *) return 1 ;; esac
}
is_ours() { case $(cat "$1/path") in */pinproof-*.service | */pinproof.conf) return 0 ;; *) return 1 ;; esac; }
widen() { # give every cpuset back the CPUs that went offline
  [ -s "$J/cpusets" ] || return 0
  gone=$(for entry in $(entries cpu); do cat "$entry/cpu"; done | tr '\n' ' ')
  # From the top down: a child may not have what its parent has not.
  awk -F '\t' -v gone="$gone" '
    function members(text, into,   i, n, k, part, ends) {
      split("", into)
      n = split(text, part, ",")
      for (i = 1; i <= n; i++) {
        if (part[i] !~ /^[0-9]+(-[0-9]+)?$/) continue
        if (split(part[i], ends, "-") == 1) ends[2] = ends[1]
        for (k = ends[1] + 0; k <= ends[2] + 0; k++) into[k] = 1
      }
    }
    BEGIN { ngone = split(gone, off, " ") }
    {
      now = ""
      if ((getline now < $2) < 0) next
      close($2)
      members($1, before); members(now, has)
      add = ""
      for (i = 1; i <= ngone; i++) if ((off[i] in before) && !(off[i] in has)) add = add "," off[i]
      if (add != "") print (now add) "\t" $2
    }' "$J/cpusets" 2>/dev/null | sed 's/^,//' | while IFS='	' read -r value f; do
    echo "$value" 2>/dev/null >"$f"
  done
  while IFS='	' read -r pid f; do
    [ -d "/proc/$pid" ] || continue
    grep -qx "$pid" "$f" 2>/dev/null || echo "$pid" 2>/dev/null >"$f"
  done 2>/dev/null <"$J/tasks"
  while IFS='	' read -r value f; do
    case $(cat "$f" 2>/dev/null) in *invalid*) echo "$value" 2>/dev/null >"$f" ;; esac
  done 2>/dev/null <"$J/partitions"
  :
}
remembers() { # slice, CPUs: set them in systemd; no file for an empty setting, as before
  systemctl set-property --runtime "$1" "AllowedCPUs=$2" 2>/dev/null
  [ -z "$2" ] || return 0
  rm -f "$R"/run/systemd/*/"$1.d/50-AllowedCPUs.conf"
  systemctl daemon-reload 2>/dev/null
}
slices() { # a kubelet of policy none writes the CPUs of its parent cgroup; one of static leaves them
  [ -f "$J/cgroups" ] || return 0
  grep '/cpuset\.cpus	' "$J/before" | while IFS='	' read -r f was; do
    f=$R$f
    [ -f "$f" ] || continue
    is=$(cat "$f" 2>/dev/null)
    [ "$is" != "$was" ] || continue
    unit=${f%/cpuset.cpus}
    unit=${unit##*/}
    # What systemd remembers, it would write again.
    case $unit in
      *.slice) ! systemd || remembers "$unit" "$was" ;;
    esac
    echo "$was" 2>/dev/null >"$f"
  done
  :
}
another_machine() { # booted as one with other CPUs: $was and $is
  was=$(awk -F '\t' '$1 == "/sys/devices/system/cpu/present" { print $2 }' "$J/before" 2>/dev/null)
  is=$(cat "$R/sys/devices/system/cpu/present" 2>/dev/null)
  [ -n "$was" ] && [ "$was" != "$is" ]
}
newcomers() { # whether an existing pod is in the state file, not in the original, and not ours
  present=$R$(cat "$J/state")
  pods=$R$(cat "$J/pods" 2>/dev/null)
  for pod in "$pods"/*; do
    uid=${pod##*/}
    ! grep -qxF -e "$uid" "$J/ours" 2>/dev/null || continue
    grep -qF "\"$uid\"" "$present" 2>/dev/null || continue
    grep -qF "\"$uid\"" "$1/content" 2>/dev/null || return 0
  done
  return 1
}
undo() {
  failed=
  claimed
  rm -f "$J/ballast"
  for entry in $(entries note); do
    bounded 60 sh "$entry/content" </dev/null >/dev/null 2>&1 9>&- ||
      say "a step of undoing ended with status $?: $(head -c 200 "$entry/content" | tr '\n' ' ')"
  done
  for entry in $(entries cpu); do
    path=$(cat "$entry/path")
    [ "$(cat "$path" 2>/dev/null)" = "$(cat "$entry/content")" ] ||
      cat "$entry/content" 2>/dev/null >"$path" || failed="$failed ${path#"$R"}"
  done
  widen
  settings= state= dirty= units=
  for entry in $(entries file); do
    undrafted "$(cat "$entry/path")"
    if is_state "$entry" && another_machine; then
      : # A kubelet refuses the state file of other CPUs.
    elif is_state "$entry"; then
      state=$entry
    elif is_manifest "$entry"; then
      undone "$entry"
    elif kernel "$(cat "$entry/path")"; then
      undone "$entry"
    elif is_ours "$entry"; then
      units=1
      undone "$entry"
    else
      [ -f "$entry/changed" ] && settings=1
      differs "$entry" && dirty=1
    fi
  done
  widen
  # The kubelet itself forgets pods that are gone.
  settling
  while [ -n "$state" ] && [ -z "$settings" ] && [ "$time" -lt "$until" ] &&
    differs_content "$state" && [ -n "$(identity)" ]; do
    sleep 1
    now
  done
  if [ -n "$state" ] && differs_content "$state" && newcomers "$state"; then
    say "the state file is left as it is: pods came that it did not know"
    state=
  fi
  # A kubelet that was started again during the run may still have the run's settings.
  [ -n "$settings" ] && ! knows_settings && dirty=1
  [ -n "$state" ] && differs_content "$state" && dirty=1
  # After a kill in between, the files differ no more, and the kubelet has read other ones.
  if [ -n "$dirty" ] || [ -f "$J/dirty" ]; then
    touch "$J/dirty"
    kubelet stop >/dev/null
    unlearned
    for entry in $(entries file); do
      if is_state "$entry"; then
        [ "$entry" = "$state" ] && undone "$entry"
      else
        undone "$entry"
      fi
    done
    units=1
  elif [ -n "$state" ] && differs "$state"; then
    undone "$state" # same content: only its times and mode
  fi
  [ -z "$units" ] || ! systemd || systemctl daemon-reload 2>/dev/null
  for entry in $(entries folder); do
    find "$(cat "$entry/path")" -depth -type d -exec rmdir {} + 2>/dev/null
  done
  if [ -s "$J/identity" ]; then
    [ -n "$(identity)" ] || kubelet start >/dev/null
  elif [ -n "$(identity)" ]; then
    kubelet stop >/dev/null
  fi
  [ -z "$settings" ] || identity >"$J/restarted"
  rm -f "$J/dirty"
  [ -z "$failed" ] || say "could not be written:$failed"
}
knows_settings() { # the kubelet that runs is that of before, or was started by undoing them
  runs=$(identity)
  for known in "$J/identity" "$J/restarted"; do
    [ "$runs" != "$(cat "$known" 2>/dev/null)" ] || return 0
  done
  return 1
}
differs_content() {
  path=$(cat "$1/path")
  if [ -e "$1/content" ]; then ! cmp -s "$1/content" "$path"; else [ -e "$path" ]; fi
}
verified() { # nothing differs; what follows offline and restart comes with a delay
  if another_machine; then
    differences="its CPUs are $is, and were $was: boot it as the machine that it was, then restore it"
    return 1
  fi
  settling
  later=$((until - seconds + longer))
  while :; do
    differences=$(fingerprint "$J" 2>/dev/null | compare "$J/before" - && others_installed)
    [ -n "$differences" ] || { rm -f "$D/tried" "$D/differences"; return 0; }
    now
    [ "$time" -lt "$until" ] || { [ "$time" -lt "$later" ] && ours_go; } || return 1
    sleep 1
    widen
    slices
  done
}
others_installed() { # too large for the sums of a fingerprint
  for entry in $(entries file); do
    [ ! -f "$entry/installed" ] || ! differs "$entry" ||
      echo "$(cut -c "$((${#R} + 1))-" "$entry/path") is not the file that was there before"
  done
}
ours_go() { # only cgroups of the run's own pods differ, which the kubelet is removing
  claimed
  [ -s "$J/ours" ] || return 1
  ! echo "$differences" | grep -vqF -e "$(cat "$J/ours")" -e "$(tr - _ <"$J/ours")"
}
# The dead-man timer ends last: if this is killed, the timer finishes it, and then ends.
forget() { # the journal, by one rename; then the rest
  [ -d "$J" ] && mv "$J" "$D/done" && durable "$D"
  looker=$(cat "$D/dead-man" 2>/dev/null)
  # A run that still lives may renew its lease at this moment.
  rm -rf "$D" 2>/dev/null || rm -rf "$D"
  retire
}
finish() {
  if [ ! -d "$J" ]; then
    forget
    return 0
  fi
  undo
  if verified; then
    forget
    return 0
  fi
  echo "$differences"
  # The node goes on by itself; its lease has ended.
  if again && lapse; then
    case $mode in dead-man | at-boot) return 0 ;; *) return 76 ;; esac
  fi
  rm -f "$D/lease"
  disarm
  return 76
}
lapse() { # the lease ends; its holder is still known
  [ -f "$D/lease" ] && read -r holder lease_boot _ patience <"$D/lease" || return 1
  echo "$holder $lease_boot 0 0" >"$D/lease.$$" && mv -f "$D/lease.$$" "$D/lease"
}

# --- dead-man timer
LOOK=$R/run/pinproof-dead-man.sh
UNIT=$R/run/systemd/system/pinproof-dead-man
# What it runs is a file of its own, because systemd may read a command in a unit differently. It goes
# on until nothing is left, and then removes itself.
look="[ ! -f '$D/node.sh' ] || exec /bin/sh '$D/node.sh' dead-man
[ -d '$D/journal' ] || find '$D' -prune -mmin +1 -exec rm -rf {} + 2>/dev/null
[ ! -d '$D' ] || exit 0
rm -f '$UNIT.timer' '$UNIT.service'
systemctl stop pinproof-dead-man.timer
rm -f '$LOOK'"
arm_timer() { # seconds between two looks
  systemd || return 1
  unarm_timer
  about="[Unit]
Description=Restores this node when a run of pinproof is dead"
  (
    umask 022 && mkdir -p "${UNIT%/*}" && printf '%s\n' "$look" >"$LOOK" &&
      printf '%s\n' "$about" '[Service]' "ExecStart=/bin/sh $LOOK" >"$UNIT.service" &&
      printf '%s\n' "$about" '[Timer]' "OnActiveSec=$1" "OnUnitInactiveSec=$1" AccuracySec=1s \
        >"$UNIT.timer"
  ) 2>/dev/null && {
    systemctl start pinproof-dead-man.timer ||
      # It may know an earlier unit of this name.
      { systemctl daemon-reload && systemctl start pinproof-dead-man.timer; }
  } >/dev/null 2>&1 9>&- && return
  unarm_timer
  return 1
}
unarm_timer() {
  rm -f "$UNIT.timer" "$UNIT.service"
  systemctl stop pinproof-dead-man.timer >/dev/null 2>&1
  rm -f "$LOOK"
  # A unit of it that failed is forgotten.
  systemctl reset-failed pinproof-dead-man.timer pinproof-dead-man.service 2>/dev/null
}
# Once the folder is gone, what the timer starts removes itself. It does so as a unit of its own: this
# script is killed with the session of its run, perhaps before the last line of unarm_timer.
retire() {
  if [ "$mode" != dead-man ] && [ "$mode" != at-boot ] && [ -e "$UNIT.service" ] && systemd; then
    systemctl start pinproof-dead-man.service >/dev/null 2>&1
    tries=0
    while [ -e "$LOOK" ] && [ $tries -lt 50 ]; do
      sleep 0.2 2>/dev/null || sleep 1
      tries=$((tries + 1))
    done
  fi
  disarm
}
arm() { # seconds between two looks
  disarm
  arm_timer "$1" && return
  setsid sh -c 'while sleep "$1" && [ -d "$2" ] && { [ -f "$2/lease" ] || [ ! -d "$2/journal" ]; }; do
    sh -c "$0"; done' "$look" "$1" "$D" </dev/null >/dev/null 2>&1 9>&- &
  echo $! >"$D/dead-man"
}
looks() { # process: whether it is the one that looks at this node
  [ -n "$1" ] && tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | grep -qF "$D"
}
disarm() {
  looker=${looker:-$(cat "$D/dead-man" 2>/dev/null)}
  rm -f "$D/dead-man"
  # The looker is not killed by its own child: it ends when that has ended.
  case $mode in
    dead-man | at-boot)
      rm -f "$UNIT.timer" "$UNIT.service"
      ! systemd || systemctl stop pinproof-dead-man.timer >/dev/null 2>&1
      rm -f "$LOOK"
      ;;
    *)
      # After a boot this number may be another program's.
      ! looks "$looker" || kill -9 "-$looker" 2>/dev/null
      if systemd; then
        systemctl stop pinproof-dead-man-boot.service >/dev/null 2>&1
        unarm_timer
      fi
      ;;
  esac
  looker=
}
looked() { # note the time of this look
  boot
  now
  # Renamed, because it is read at any time; a full disk must not end a step.
  { echo "$boot $time" >"$D/looked.new" && mv -f "$D/looked.new" "$D/looked"; } 2>/dev/null || :
}
late() { # it has not looked for $late seconds, though it ought to look every $every
  [ -f "$D/every" ] || return 1
  read -r every <"$D/every"
  looked_boot='' looked=0
  [ ! -f "$D/looked" ] || read -r looked_boot looked <"$D/looked"
  boot
  now
  # After a boot a service of its own looks.
  [ "$looked_boot" = "$boot" ] || looked=0
  late=$((time - looked))
  [ "$late" -gt $((4 * every + 20)) ]
}
ticks() { # now: also check that it is set; it is set again where it does not look
  if late; then
    said="has not looked for $late s"
  elif [ "${1:-}" = now ] && [ -f "$D/every" ] && ! is_set; then
    said="was not set any more"
  else
    return 0
  fi
  say "the dead-man timer of this node $said: it is set again"
  arm "$every"
  looked
}
is_set() {
  if systemd; then
    systemctl is-active --quiet pinproof-dead-man.timer ||
      systemctl is-active --quiet pinproof-dead-man-boot.service
  else
    read -r looker 2>/dev/null <"$D/dead-man" && looks "$looker"
  fi
}

# --- trying again: a busy node may need time until nothing differs
HOUR=3600
due() { # whether it is time for the next attempt
  tried_boot='' first=0 next=0 attempts=0
  [ ! -f "$D/tried" ] || read -r tried_boot first next attempts <"$D/tried"
  boot
  now
  [ "$tried_boot" = "$boot" ] || { first=$time next=0; }
  [ "$time" -ge "$next" ]
}
again() { # write down what differs; false once attempts have gone on for an hour
  due
  attempts=$((attempts + 1))
  pause=$((15 << (attempts < 6 ? attempts - 1 : 5)))
  echo "$boot $first $((time + pause)) $attempts" 2>/dev/null >"$D/tried"
  {
    echo "After attempt $attempts, $(date -u '+%Y-%m-%d %H:%M:%S UTC'), this node is not as it was:"
    echo "$differences"
  } 2>/dev/null >"$D/differences"
  say "attempt $attempts to restore this node: it is not as it was: $(echo "$differences" | tr '\n' ';')"
  [ $((time - first)) -lt $HOUR ]
}
dead_man() {
  looked
  if [ ! -f "$D/lease" ]; then
    # It could not be restored: a person has to act.
    [ ! -d "$J" ] || { disarm && exit 0; }
    # A run begins at this moment, or was killed while it began.
    [ -n "$(find "$D/node.sh" -mmin +1)" ] || exit 0
  fi
  lease && exit 0
  due || exit 0
  lock
  # The holder of the lock may have restored the node, as far as possible.
  lease && exit 0
  [ -f "$D/lease" ] || [ ! -d "$J" ] || exit 0
  finish >/dev/null
}

begin() { # owner, patience, seconds between looks; fields on stdin, one a line
  others "$1" && die 73 "this node is held by $holder for $left s more"
  if [ -d "$J" ]; then
    undo
    verified || { echo "$differences"; die 76 "what a run before left could not be undone"; }
    mv "$J" "$D/done" && rm -rf "$D/done"
  fi
  renew "$1" "$2" || die 74 "cannot write $D: is the disk full?"
  mkdir "$D/begun" || die 74 "cannot write $D: is the disk full?"
  while read -r name value; do
    case $name in
      watched) decoded "$value" >>"$D/begun/watched" && echo >>"$D/begun/watched" ;;
      state | manifests | pods | start | stop | active | cgroups | settle) decoded "$value" >"$D/begun/$name" ;;
      *) die 70 "no such field: $name" ;;
    esac || die 74 "cannot write $D: is the disk full?"
  done
  [ -f "$D/begun/watched" ] || printf '' >"$D/begun/watched"
  {
    : >"$D/begun/identity"
    [ ! -s "$D/begun/active" ] ||
      bounded 30 sh "$D/begun/active" </dev/null 2>/dev/null 9>&- >"$D/begun/identity" ||
      die 71 "the kubelet is neither up nor down: it is being started or stopped, or systemd does not answer"
    head -c 262144 /dev/zero >"$D/begun/ballast" &&
      fingerprint "$D/begun" >"$D/begun/before" && [ -f "$D/begun/identity" ] &&
      durable "$D"/begun/* "$D/begun" && [ -s "$D/begun/before" ]
  } || die 74 "the journal cannot be written: is the disk full?"
  # With a service manager, its timer was set before anything else.
  [ -e "$UNIT.timer" ] || arm "$3"
  echo "$3" >"$D/every"
  looked
  mv "$D/begun" "$J" && durable "$D" || die 74 "the journal cannot be written: is the disk full?"
  cat "$J/before"
}

# A run that was killed before any change, or was refused, leaves nothing.
abandon() { [ -d "$J" ] || forget; }

case ${1:-} in
  begin)
    lock
    (shift && begin "$@")
    status=$?
    [ $status = 0 ] || [ $status = 73 ] || abandon
    exit $status
    ;;
  sweep) # owner: what a run before left, by the script that it left
    ! others "$2" || die 73 "this node is held by $holder for $left s more"
    lock
    others "$2" && die 73 "this node is held by $holder for $left s more"
    [ -d "$J" ] || exit 0
    undo
    verified || { echo "$differences"; die 76 "what a run before left could not be undone"; }
    mv "$J" "$D/done" && rm -rf "$D/done"
    ;;
  arm) arm_timer "$2" ;; # before there is a folder
  touch) mine "$2" && ticks now ;; # while a step holds the lock
  apply) # and hold the lock for as long as the caller does
    lock && mine "$2" && ticks && { [ -z "${PINPROOF_STEP:-}" ] || echo "$PINPROOF_STEP" >"$D/step"; } && apply
    ;;
  undo) # owner: undo all changes, and go on
    lock && mine "$2" && undo
    verified || { echo "$differences"; exit 76; }
    # The same beginning, without entries.
    rm -rf "$D/begun" && mkdir "$D/begun" || die 74 "cannot write $D"
    for f in "$J"/*; do case ${f##*/} in [0-9]* | cpusets | tasks | partitions | classes) ;; *) cp -a "$f" "$D/begun/" ;; esac; done
    kubelet active >"$D/begun/identity"
    head -c 262144 /dev/zero >"$D/begun/ballast"
    durable "$D"/begun/* "$D/begun" && mv "$J" "$D/done" && mv "$D/begun" "$J" && rm -rf "$D/done"
    ;;
  leave) # owner, seconds that pods of ours may take to go on a node as slow as this one was
    longer=${3:-0}
    mine "$2" && lock && mine "$2" && finish
    ;;
  restore) # force: also where a run holds it
    [ "${2:-}" = force ] || ! lease || die 73 "this node is held by $holder for $left s more"
    lock "${2:-}"
    [ "${2:-}" = force ] || ! lease || die 73 "this node is held by $holder for $left s more"
    [ -d "$J" ] || say "nothing to undo"
    finish
    ;;
  forget) # accept the node as it is
    lock
    lease && die 73 "this node is held by $holder"
    forget
    ;;
  dead-man) # a unit has failed only where the node could not be restored
    (dead_man)
    [ $? != 76 ] || exit 76
    ;;
  at-boot)
    # The relay of a runner that reaches this node through its kubelet, which may be down after a boot.
    [ ! -f "$D/relay" ] || systemd-run --quiet --collect --unit=pinproof-relay \
      --property=Type=forking sh "$D/relay" >/dev/null 2>&1
    while sh "$D/node.sh" dead-man && [ -f "$D/lease" ]; do sleep 10; done
    ;;
  status)
    if lease; then echo "held $holder $left"; else echo "free"; fi
    ! late || echo "timer it has not looked at this node for $late s"
    [ ! -f "$D/differences" ] || sed 's/^/differs /' "$D/differences"
    for entry in "$J"/[0-9]*; do
      [ -f "$entry/kind" ] && printf '%s %s\n' "$(cat "$entry/kind")" "$(cat "$entry/path" 2>/dev/null)"
    done
    ;;
  *) die 70 "one of: restore, status" ;;
esac
