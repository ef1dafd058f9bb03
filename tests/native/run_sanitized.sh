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
  cmake -G Ninja -S "$root/core" -B "$build/$name" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
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
