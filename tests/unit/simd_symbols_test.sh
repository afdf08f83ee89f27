#!/bin/sh
# Fails when an object compiled for one instruction set has a symbol that the linker merges over
# units (weak or unique) outside that set's namespace: the copy that it keeps may be another set's.
# Usage: simd_symbols_test.sh NM ISA OBJECT...
nm=$1
isa=$2
shift 2
[ $# -gt 0 ] || { echo "no object was given"; exit 1; }
symbols=$("$nm" "$@") || exit 1
# An object without its namespace would pass for lack of anything to find.
echo "$symbols" | grep -q "N10flashinfer3cpu${#isa}$isa" || {
  echo "no symbol of flashinfer::cpu::$isa in: $*"
  exit 1
}
bad=$(echo "$symbols" | grep -E ' [WwVvu] _Z' | grep -vE "NK?10flashinfer3cpu${#isa}${isa}")
if [ -n "$bad" ]; then
  echo "merged symbols outside flashinfer::cpu::$isa:"
  echo "$bad" | c++filt
  exit 1
fi
