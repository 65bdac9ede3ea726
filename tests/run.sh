#!/usr/bin/env bash
# Every check and test, in the order of what fails fastest. Called by `make test`.
# With arguments: those tests alone, as in `make test ARGS=tests/asr`.
set -euo pipefail
unset PYTHONDONTWRITEBYTECODE # dozens of processes import the same modules
bin="${VENV:-.venv}/bin"
logs=.out/tests

if [ $# -gt 0 ]; then
  echo "== weights of the tiny profile (fetched once, kept in the user's cache)"
  "$bin/visavis" models pull --profile tiny
  echo "== tests"
  exec "$bin/python" -m pytest "$@"
fi

# Groups side by side, and the types. What only computes has the lower priority: the others start
# services and browsers, and wait for them.
compiling=(tests/bundles tests/engine tests/gpu tests/tools/precision)
computing=(tests/asr tests/face tests/fuzz tests/llm tests/monitoring tests/tts)
stacks=(tests/stack tests/simulation tests/proxies tests/browser/test_conversation.py
  tests/browser/test_flash_and_beep.py tests/browser/test_live_playout.py tests/browser/test_recovery.py)
pages=(tests/browser)
groups=(types compiling computing serving pages stacks)
# Networks are blocks of a hundred megabytes. To have each from the system anew, page by page, takes
# as long as what is computed on it, so processes keep what they have freed.
keeping=(env MALLOC_MMAP_THRESHOLD_=4000000000 MALLOC_TRIM_THRESHOLD_=4000000000)
mkdir -p "$logs"

# Passes on what a group says while it is at work; what pytest found comes at the end, in one piece.
progress() {
  local line ended=
  while IFS= read -r line; do
    case "$line" in
      *"= FAILURES ="* | *"= ERRORS ="* | *"= short test summary"* | *"!! "*) ended=1 ;;
    esac
    [ -n "$ended" ] || [ -z "$line" ] || printf '%-9s | %s\n' "$1" "$line"
    case "$line" in *"[100%]"*) ended=1 ;; esac
  done
}

group() { # name, then a command
  local name=$1
  shift
  # Ctrl-C ends the tests, which have something to say yet; so it does not end their readers.
  "$@" 2>&1 </dev/null | (trap '' INT && tee "$logs/$name.log" | progress "$name")
}

jobs=()
begin() { # a job of its own, which Ctrl-C is passed on to
  set -m
  "$@" &
  jobs+=($!)
  set +m
}
stop() {
  for job in "${jobs[@]}"; do kill -INT -- "-$job" 2>/dev/null || true; done
}
trap stop INT TERM EXIT

echo "== format, lint, types"
"$bin/ruff" format --check --quiet .
"$bin/ruff" check --quiet .
begin group types nice -n 10 "$bin/mypy"

echo "== weights of the tiny profile (fetched once, kept in the user's cache), and what draws is compiled"
"$bin/python" -m services.face.compiled &
drawing=$!
"$bin/visavis" models pull --profile tiny
wait "$drawing"

echo "== tests in groups side by side: stacks is ${stacks[*]}; pages is the rest of ${pages[*]}; compiling is ${compiling[*]}; computing is ${computing[*]}; serving all others"
others=("${compiling[@]}" "${computing[@]}" "${stacks[@]}" "${pages[@]}")
begin group compiling nice -n 10 "${keeping[@]}" "$bin/python" -m pytest "${compiling[@]}"
begin group computing nice -n 10 "${keeping[@]}" "$bin/python" -m pytest "${computing[@]}"
begin group serving "${keeping[@]}" "$bin/python" -m pytest "${others[@]/#/--ignore=}"
begin group pages "$bin/python" -m pytest "${pages[@]}" "${stacks[@]/#/--ignore=}"
begin group stacks "$bin/python" -m pytest "${stacks[@]}"
# Beside them: it waits for others, and fails nothing. What is known since yesterday is no fault of
# this checkout.
nice -n 10 "$bin/python" -m tests.audit --warn >"$logs/audit.log" 2>&1 </dev/null &
auditing=$!
trap 'kill "$auditing" 2>/dev/null || true; stop' INT TERM
trap - EXIT

worst=0
statuses=()
for job in "${jobs[@]}"; do
  while :; do
    status=0
    wait "$job" || status=$?
    kill -0 "$job" 2>/dev/null || break # else it was a signal that ended the waiting
  done
  statuses+=("$status")
  [ "$status" = 0 ] || worst=$status
done

for name in "${groups[@]:1}"; do # the types' have been shown
  echo
  echo "== what $name found"
  # Without the progress, which has been shown, too.
  sed '1,/\[100%\]\|^=* FAILURES =\|^=* ERRORS =\|^!!* /{/^=* FAILURES =\|^=* ERRORS =\|^!!* /!d}' \
    "$logs/$name.log"
done

echo
echo "== audit of the locked packages (make audit)"
wait "$auditing" || true
cat "$logs/audit.log"

echo
echo "== summary"
for number in "${!groups[@]}"; do
  name=${groups[number]}
  last=$(grep -E '^=+ .* in [0-9.]+s.* =+$|^(Found|Success:) ' "$logs/$name.log" | tail -1 | sed 's/^=* //; s/ =*$//' || true)
  echo "$name: ${last:-broke off} (status ${statuses[number]}; all of it in $logs/$name.log)"
done
failed=$(for name in "${groups[@]}"; do cat "$logs/$name.log"; done |
  sed -nE 's/^(FAILED|ERROR) (tests\/[^ []+).*/\2/p' | sort -u)
if grep -q 'no Chromium' "$logs/pages.log" "$logs/stacks.log"; then
  echo "The browser tests were skipped: there is no Chromium. \`make browser\` installs it."
fi
if [ "$worst" = 0 ]; then
  echo "All passed."
elif [ -n "$failed" ]; then
  echo "Failed:"
  printf '  %s\n' $failed
  echo "Run them again: make test ARGS=\"$(echo $failed)\""
fi
exit "$worst"
