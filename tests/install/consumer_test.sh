#!/bin/sh
# consumer_test.sh SOURCE_FOLDER BUILD_FOLDER COMPILER: installs the library, builds the project in
# consumer/ against it with find_package(flashinfer), and runs it.
set -eu
source=$1 build=$2 compiler=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --prefix "$folder/prefix" >/dev/null
cmake -S "$source/tests/install/consumer" -B "$folder/build" -G Ninja \
  -DCMAKE_PREFIX_PATH="$folder/prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_CXX_FLAGS='-Wall -Wextra -Wconversion -Werror'
cmake --build "$folder/build"
printed=$("$folder/build/consumer")
echo "$printed"
[ "$printed" = '0.848528 1.131371' ]
