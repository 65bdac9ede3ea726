#!/usr/bin/env bash
# Every check and test, in the order of what fails fastest. Called by `make test`.
set -euo pipefail
bin="${VENV:-.venv}/bin"

echo "== format, lint, types"
"$bin/ruff" format --check --quiet .
"$bin/ruff" check --quiet .
"$bin/mypy" visavis services gateway training

# And the larger recogniser of English: its networks are compiled with the others.
echo "== weights of the tiny profile (fetched once, kept in the user's cache)"
"$bin/visavis" models pull --profile tiny moonshine-base-en

# A browser from the system's packages, where we may install one; the tests that
# need it say so when they skip.
if ! command -v chromium >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "== installing Chromium for the browser tests"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; } >/dev/null 2>&1 ||
    echo "Chromium could not be installed: the browser tests will be skipped"
fi

if [ $# -gt 0 ]; then
  echo "== tests"
  exec "$bin/python" -m pytest "$@"
fi

# Two runs side by side. Those that only compute have the lower priority: the others start
# services and browsers, and wait for them.
computing=(tests/asr tests/engine_tensorrt tests/face tests/gpu tests/llm tests/makers tests/models
  tests/plans tests/tts)
echo "== tests: ${computing[*]} (shown at the end)"
log="$(mktemp)"
set -m # as a job of its own, or it would ignore Ctrl-C, which some tests send
nice -n 10 "$bin/python" -m pytest --timeout 300 "${computing[@]}" >"$log" 2>&1 &
other=$!
set +m
trap 'kill "$other" 2>/dev/null || true; rm -f "$log"' EXIT

echo "== tests: all others"
failed=0
"$bin/python" -m pytest "${computing[@]/#/--ignore=}" || failed=$?
wait "$other" || failed=$?
echo "== tests: ${computing[*]}"
cat "$log"
exit "$failed"
