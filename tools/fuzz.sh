#!/bin/sh
# Builds every fuzz target and runs them for SECONDS in total, one after the other. What they find
# is left in build/fuzz/found; what they learn stays in build/fuzz/corpus for the next run.
set -eu
if [ $# -ne 1 ] || ! [ "$1" -gt 0 ] 2>/dev/null; then
  echo "usage: tools/fuzz.sh SECONDS" >&2
  exit 2
fi
seconds=$1
cd "$(dirname -- "$0")/.."
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target fuzzers

set -- fuzz/*_fuzz.cc
share=$(((seconds + $# - 1) / $#))
mkdir -p build/fuzz/found
for source; do
  name=$(basename -- "$source" _fuzz.cc)
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus"
  log=build/fuzz/$name.log
  if ! "build/fuzz/bin/${name}_fuzz" -max_total_time="$share" -timeout=10 -rss_limit_mb=1024 \
      -malloc_limit_mb=256 -artifact_prefix="build/fuzz/found/$name-" -print_final_stats=1 \
      "$corpus" "fuzz/seeds/$name" >"$log" 2>&1; then
    tail -40 "$log"
    echo "fuzz: $name failed; the input is in build/fuzz/found" >&2
    exit 1
  fi
  echo "fuzz: $name ran $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
done
