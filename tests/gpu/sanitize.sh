#!/usr/bin/env bash
# Runs the kernel tests under compute-sanitizer's memcheck and racecheck, on a machine with an NVIDIA GPU.
# Usage: tests/gpu/sanitize.sh [LOG_FOLDER]
set -uo pipefail
cd "$(dirname "$0")/../.."
logs=${1:-$(mktemp -d)}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTORCH_NO_CUDA_MEMORY_CACHING=1

if compute-sanitizer --tool memcheck --error-exitcode 9 python3 tests/gpu/planted_fault.py >"$logs/planted.log" 2>&1; then
  echo "planted fault: NOT reported, so the runs below prove nothing"
  exit 1
fi
grep -h 'ERROR SUMMARY' "$logs/planted.log" | sed 's/^=* */planted fault: reported, /'

# NOTE: captures need the caching allocator, which hides writes past a tensor from memcheck; they run without it elsewhere.
status=0
for tool in memcheck racecheck; do
  pids=()
  for file in draft draft_cache tree verify compact slots extend model heads move worker; do
    compute-sanitizer --tool "$tool" --error-exitcode 9 python3 -m pytest -q "tests/gpu/test_$file.py" \
      -p no:cacheprovider -k 'not captur and not 31_bits and not graphs and not replay and not synchronises' \
      >"$logs/$tool.$file.log" 2>&1 &
    pids+=("$!:$file")
  done
  for entry in "${pids[@]}"; do
    wait "${entry%%:*}" || status=1
    file=${entry#*:}
    echo "$tool $file: $(grep -h 'SUMMARY' "$logs/$tool.$file.log" | tail -1 | tr -d '=') |" \
      "$(grep -hE 'passed|failed|error' "$logs/$tool.$file.log" | tail -1)"
  done
done
exit "$status"
