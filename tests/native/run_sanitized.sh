#!/bin/sh
# Builds the native tests under AddressSanitizer + UndefinedBehaviorSanitizer and under
# ThreadSanitizer, and runs them. Needs cmake, ninja and g++ or clang++; no Python.
#   tests/native/run_sanitized.sh [build folder]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${1:-$root/build/sanitized}
PATH=$root/.venv/bin:$PATH

run() {
  name=$1
  sanitizers=$2
  # All sources as one take a third of the time: most of it is the headers and the optimizer.
  cmake -G Ninja -S "$root/core" -B "$build/$name" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 \
    -DOPWRIGHT_PYTHON=OFF -DOPWRIGHT_TESTS=ON -DOPWRIGHT_SANITIZE="$sanitizers" >/dev/null
  cmake --build "$build/$name"
  echo "== $name"
  "$build/$name/native_tests/opwright_native_tests"
}

export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1
run asan address,undefined
run tsan thread
