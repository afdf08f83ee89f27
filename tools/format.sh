#!/bin/sh
# Formats the C++ files with clang-format 14; with --check, changes nothing and fails where one is
# not formatted.
set -eu
cd "$(dirname -- "$0")/.."
tool=$(command -v clang-format-14 || true)
if [ -z "$tool" ]; then
  echo "format: clang-format-14 is not here; tools/setup --dev installs it" >&2
  exit 1
fi
mode=-i
[ "${1-}" != --check ] || mode='--dry-run -Werror'
# shellcheck disable=SC2086
git ls-files -z --cached --others --exclude-standard '*.h' '*.cuh' '*.cc' |
  xargs -0 -r sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh |
  xargs -0 -r "$tool" $mode
