#!/usr/bin/env bash
# Judges the kubelet of this repository with pinproof. Written by `pinproof ci init`, and yours to
# change. The variables below can be set by the job.
#
#   pinproof-gate.sh build   builds the kubelet, unless the cached one is of the same sources
#   pinproof-gate.sh base    fetches the results of the main branch, where PINPROOF_BASE_URL is set
#   pinproof-gate.sh run     judges it, writes the reports, compares it with the main branch
set -euo pipefail

: "${PINPROOF_KUBELET:=@{ kubelet }@}"
: "${PINPROOF_BUILD:=@{ build }@}"
: "${PINPROOF_RUN_ON:=@{ machines }@}"
: "${PINPROOF_KNOWN:=@{ known }@}"
: "${PINPROOF_BEHAVIOURS:=behaviours.toml}"
: "${PINPROOF_EXPLORE:=@{ explore }@}" # minutes; 0: the catalogue alone
: "${PINPROOF_OUT:=pinproof-out}"
: "${PINPROOF_BASE:=pinproof-base/result.jsonl}"
: "${PINPROOF_SUBJECT:=kubelet:$PINPROOF_KUBELET}"

build() {
  local stamp
  stamp=$(git ls-tree HEAD -- go.mod go.sum go.work cmd pkg staging vendor | sha256sum | cut -d' ' -f1)
  if [[ -x $PINPROOF_KUBELET && $(cat "$PINPROOF_KUBELET.stamp" 2>/dev/null) == "$stamp" ]]; then
    echo "the cached kubelet is of these sources"
    return
  fi
  rm -f "$PINPROOF_KUBELET.stamp"
  bash -euo pipefail -c "$PINPROOF_BUILD"
  echo "$stamp" >"$PINPROOF_KUBELET.stamp"
}

base() {
  [[ -n ${PINPROOF_BASE_URL:-} ]] || return 0
  mkdir -p "$(dirname "$PINPROOF_BASE")"
  local header=()
  [[ -z ${CI_JOB_TOKEN:-} ]] || header=(--header "JOB-TOKEN: $CI_JOB_TOKEN")
  curl --fail --silent --show-error --location --retry 2 "${header[@]}" \
    --output "$PINPROOF_BASE" "$PINPROOF_BASE_URL" ||
    { rm -f "$PINPROOF_BASE"; echo "the main branch has no results yet"; }
}

# Whether the fork lists what differs: then the list is the gate.
listed() {
  [[ -f $PINPROOF_KNOWN ]] || grep -qs '^\[\[difference\]\]' "$PINPROOF_BEHAVIOURS"
}

run() {
  local words=(run --subject "$PINPROOF_SUBJECT" --report "$PINPROOF_OUT") one status=0 compared=0
  local machines
  read -ra machines <<<"$PINPROOF_RUN_ON"
  for one in "${machines[@]}"; do words+=(--machine "$one"); done
  [[ ! -f $PINPROOF_KNOWN ]] || words+=(--known "$PINPROOF_KNOWN")
  [[ ! -f $PINPROOF_BEHAVIOURS ]] || words+=(--behaviours "$PINPROOF_BEHAVIOURS")
  [[ $PINPROOF_EXPLORE == 0 ]] || words+=(--explore "$PINPROOF_EXPLORE")
  local stream=$PINPROOF_OUT/result.jsonl explored=$PINPROOF_OUT/explored
  rm -rf "$stream" "$explored" # of an earlier run
  pinproof "${words[@]}" || status=$?
  [[ -s $stream ]] || exit "$status"

  pinproof report "$stream" --format markdown --output "$PINPROOF_OUT/summary.md"
  pinproof report "$stream" --format gitlab --output "$PINPROOF_OUT/codequality.json"
  if [[ -s $PINPROOF_BASE ]]; then
    pinproof compare "$PINPROOF_BASE" "$stream" || compared=$?
    pinproof compare "$PINPROOF_BASE" "$stream" --format markdown \
      --output "$PINPROOF_OUT/compared.md" || true
    # Without a list of known failures, a promise that the main branch breaks too is no news.
    if [[ $status == 1 && $compared == 0 ]] && ! listed; then
      status=0
      # Drawn histories are not the same ones everywhere, so the main branch says nothing of them.
      [[ ! -s $explored/result.jsonl ]] ||
        pinproof report "$explored/result.jsonl" --gate >/dev/null || status=$?
    fi
  fi
  if [[ -n ${GITHUB_STEP_SUMMARY:-} ]]; then
    cat "$PINPROOF_OUT"/{compared,summary}.md >>"$GITHUB_STEP_SUMMARY" 2>/dev/null || true
  fi
  if [[ -n ${ARTIFACTS:-} ]]; then # Prow: Spyglass and TestGrid read these names
    cp "$PINPROOF_OUT/junit.xml" "$ARTIFACTS/junit_pinproof.xml"
    cp "$PINPROOF_OUT"/{result.jsonl,report.html} "$ARTIFACTS/"
  fi
  exit "$status"
}

case ${1:-} in
build | base | run) "$1" ;;
*) echo "usage: $0 build|base|run" >&2 && exit 2 ;;
esac
