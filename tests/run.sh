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

echo "== tests"
exec "$bin/python" -m pytest "$@"
