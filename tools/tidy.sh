#!/usr/bin/env bash
# tools/tidy.sh BUILD_FOLDER [BASE]: clang-tidy over the C++ sources that changed since BASE;
# without it, since the branch left origin/main, or in the last ten commits on main itself. Where
# the build is another clone's, that clone's files are read: its commands are known for no others.
set -euo pipefail
cd "$(dirname -- "$0")/.."
build=$1
base=${2-}
if [ -z "$base" ]; then
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(git rev-list -n 11 HEAD | tail -n 1)
  fi
fi
mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- '*.cc' ':!tests/install')
mapfile -t files < <(for f in "${files[@]}"; do
  if grep -qF "/$f\"" "$build/compile_commands.json"; then echo "$f"; fi
done)
echo "tidy: ${#files[@]} files changed since $(git rev-parse --short "$base")"
[ ${#files[@]} -gt 0 ] || exit 0
source=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt")
printf '%s\0' "${files[@]/#/$source/}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-16 -p "$build" --quiet \
  --extra-arg=-Wno-unknown-warning-option
