#!/usr/bin/env bash
# Runs all tests, in two parts side by side, since most tests keep one processor busy. Both always
# run whole, so that one failure does not hide another; the first prints when it has ended. A part
# without any test is a failure: pytest then exits with 5.
#
#     tests/run_in_parts.sh PYTHON
set -u
pytest=("$1" -m pytest --durations=30 -p no:cacheprovider)

log=$(mktemp)
"${pytest[@]}" -m kernel_part >"$log" 2>&1 &
kernel_part=$!
trap 'kill "$kernel_part" 2>/dev/null; rm -f "$log"' EXIT

failed=0
# Nothing in these folders is of the other part, so that it need not collect them.
"${pytest[@]}" -m "not kernel_part" \
  --ignore=tests/operators --ignore=tests/cuda --ignore=tests/cuda_emulator || failed=1
wait "$kernel_part" || failed=1
cat "$log"
exit "$failed"
