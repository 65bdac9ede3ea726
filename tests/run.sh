#!/usr/bin/env bash
# Every check and test, in the order of what fails fastest. Called by `make test`.
# With arguments: those tests alone, as in `make test ARGS=tests/asr`.
set -euo pipefail
unset PYTHONDONTWRITEBYTECODE # dozens of processes import the same modules
bin="${VENV:-.venv}/bin"
logs=.out/tests

if [ $# -gt 0 ]; then
  echo "== weights of the tiny profile (fetched once, kept in the user's cache), and what draws is compiled"
  "$bin/python" -m services.face.compiled
  "$bin/visavis" models pull --profile tiny
  echo "== tests"
  exec "$bin/python" -m pytest "$@"
fi

# Groups in lanes side by side: two start services and wait for them; the others only compute, at a
# lower priority, in what those leave of two cores. Two go on with the browser, so that all end
# together. More lanes are no sooner at their end, and the more of them want a core, the longer each
# waits for what it has asked.
compiling=(tests/bundles tests/engine tests/gpu tests/tools/precision)
computing=(tests/asr tests/deploy tests/face tests/fuzz tests/llm tests/monitoring tests/tts)
stacks=(tests/stack tests/simulation tests/proxies tests/browser/test_conversation.py
  tests/browser/test_flash_and_beep.py tests/browser/test_live_playout.py tests/browser/test_recovery.py)
page=(tests/browser/test_page.py)
browser=(tests/browser)
groups=(types compiling computing serving page browser stacks)
# Networks are blocks of a hundred megabytes. To have each from the system anew, page by page, takes
# as long as what is computed on it, so processes keep what they have freed.
keeping=(env MALLOC_MMAP_THRESHOLD_=4000000000 MALLOC_TRIM_THRESHOLD_=4000000000)
others=("${compiling[@]}" "${computing[@]}" "${stacks[@]}" "${browser[@]}")
rm -f "$logs"/*.log "$logs"/*.status
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
  local name=$1 status=0
  shift
  [ -z "${stopped:-}" ] || return 0
  # Ctrl-C ends the tests, which have something to say yet; so it does not end their readers.
  "$@" 2>&1 </dev/null | (trap '' INT && tee "$logs/$name.log" | progress "$name") || status=$?
  echo "$status" >"$logs/$name.status"
}
types() { group types nice -n 10 "$bin/mypy"; }
compiling() { group compiling nice -n 10 "${keeping[@]}" "$bin/python" -m pytest "${compiling[@]}"; }
computing() { group computing nice -n 10 "${keeping[@]}" "$bin/python" -m pytest "${computing[@]}"; }
serving() { group serving "${keeping[@]}" "$bin/python" -m pytest "${others[@]/#/--ignore=}"; }
page() { group page "$bin/python" -m pytest "${page[@]}"; }
browser() { group browser "$bin/python" -m pytest "${browser[@]}" "${page[@]/#/--ignore=}" "${stacks[@]/#/--ignore=}"; }
stacks() { group stacks "$bin/python" -m pytest "${stacks[@]}"; }

lane() { # groups, one after the other
  trap 'stopped=1' INT
  for name in "$@"; do "$name"; done
}

jobs=()
begin() { # a lane, which Ctrl-C is passed on to
  set -m
  lane "$@" &
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
begin types

echo "== weights of the tiny profile (fetched once, kept in the user's cache), and what draws is compiled"
"$bin/python" -m services.face.compiled &
drawing=$!
"$bin/visavis" models pull --profile tiny
wait "$drawing"

echo "== tests in groups side by side: stacks is ${stacks[*]}; page is ${page[*]}; browser is the rest of ${browser[*]}; compiling is ${compiling[*]}; computing is ${computing[*]}; serving all others"
begin stacks
begin serving page
begin compiling browser
begin computing
# Beside them: it waits for others, and fails nothing. What is known since yesterday is no fault of
# this checkout.
nice -n 10 "$bin/python" -m tests.audit --warn >"$logs/audit.log" 2>&1 </dev/null &
auditing=$!
trap 'kill "$auditing" 2>/dev/null || true; stop' INT TERM
trap - EXIT

for job in "${jobs[@]}"; do
  while :; do
    wait "$job" || true
    kill -0 "$job" 2>/dev/null || break # else it was a signal that ended the waiting
  done
done

for name in "${groups[@]:1}"; do # the types' have been shown
  echo
  echo "== what $name found"
  # Without the progress, which has been shown, too.
  sed -E '1,/\[100%\]|^=* (FAILURES|ERRORS) =|^!!* /{/^=* (FAILURES|ERRORS) =|^!!* /!d;}' \
    "$logs/$name.log" 2>/dev/null || true
done

echo
echo "== audit of the locked packages (make audit)"
wait "$auditing" || true
cat "$logs/audit.log"

echo
echo "== summary"
worst=0
for name in "${groups[@]}"; do
  status=$(cat "$logs/$name.status" 2>/dev/null || echo 130) # was stopped before its turn
  [ "$status" = 0 ] || worst=$status
  last=$(grep -E '^=+ .* in [0-9.]+s.* =+$|^(Found|Success:) ' "$logs/$name.log" 2>/dev/null | tail -1 | sed 's/^=* //; s/ =*$//' || true)
  echo "$name: ${last:-broke off} (status $status; all of it in $logs/$name.log)"
done
failed=$(for name in "${groups[@]}"; do cat "$logs/$name.log" 2>/dev/null || true; done |
  sed -nE 's/^(FAILED|ERROR) (tests\/[^ []+).*/\2/p' | sort -u)
if grep -q 'no Chromium' "$logs/page.log" "$logs/browser.log" "$logs/stacks.log" 2>/dev/null; then
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
