#!/bin/sh
# bundle_test.sh SOURCE_FOLDER BUILD_FOLDER: the bundle runs from another folder, with a space in
# its name, an empty environment and no library path.
set -eu
source=$1 build=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$source/tools/bundle" "$build" "$folder/made"
mkdir "$folder/moved away"
mv "$folder"/made/flashinfer-* "$folder/moved away/flashinfer"
bin="$folder/moved away/flashinfer/bin"
cd /
run() { env -i HOME="$folder" "$@"; }

loaded=$(run LD_TRACE_LOADED_OBJECTS=1 "$bin/flashinfer")
echo "$loaded"
case $loaded in
  *'not found'*) echo 'bundle_test: a library is missing'; exit 1 ;;
esac
echo "$loaded" | grep -q "libflashinfer.*=> $folder/moved away" ||
  { echo 'bundle_test: the library is not taken from the folder'; exit 1; }
run "$bin/flashinfer" --version
run "$bin/flashinfer" explain norm
run "$bin/norm_test" --gtest_brief=1 --gtest_filter='*Errors*'
run "$bin/flashinfer" check norm hidden_size=111
run "$bin/flashinfer" bench norm num_rows=1 --seconds 0.01
