#!/usr/bin/env bash
# Runs all tests in two concurrent parts, since most tests keep one processor busy. Both always run
# completely, so one failure does not hide another; the output of the first part is printed when it
# has ended. A part without tests counts as a failure, since pytest then exits with 5.
#
#     .ci/run_in_parts.sh PYTHON
set -u
pytest=("$1" -m pytest --durations=30 -p no:cacheprovider)

log=$(mktemp)
"${pytest[@]}" -m first_part >"$log" 2>&1 &
first_part=$!
trap 'kill "$first_part" 2>/dev/null; rm -f "$log"' EXIT

failed=0
"${pytest[@]}" -m "not first_part" || failed=1
wait "$first_part" || failed=1
cat "$log"
exit "$failed"
