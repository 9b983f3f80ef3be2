#!/usr/bin/env bash
# Runs the kernel tests under compute-sanitizer's memcheck and racecheck, on a machine with an NVIDIA GPU.
# Usage: tests/gpu/sanitize.sh [LOG_FOLDER]
set -uo pipefail
cd "$(dirname "$0")/../.."
logs=${1:-$(mktemp -d)}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}

if PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck --error-exitcode 9 python3 tests/gpu/planted_fault.py >"$logs/planted.log" 2>&1; then
  echo "planted fault: NOT reported, so the runs below prove nothing"
  exit 1
fi
grep -h 'ERROR SUMMARY' "$logs/planted.log" | sed 's/^=* */planted fault: reported, /'

# NOTE: the caching allocator hides writes past a tensor from memcheck, but graphs cannot be captured without it. So the
# kernels are tested one by one without it, and the workers, whose kernels are the same, with it.
status=0
for tool in memcheck racecheck; do
  pids=()
  for file in draft draft_cache tree verify compact slots extend model heads move \
    probabilities acceptance from_logits grammar attention worker sampling; do
    allocator=(PYTORCH_NO_CUDA_MEMORY_CACHING=1)
    case "$file" in worker | sampling) allocator=() ;; esac
    env "${allocator[@]}" compute-sanitizer --tool "$tool" --error-exitcode 9 python3 -m pytest -q "tests/gpu/test_$file.py" \
      -p no:cacheprovider -k 'not captur and not 31_bits and not 32_bits and not large and not graph and not synchronises' \
      >"$logs/$tool.$file.log" 2>&1 &
    pids+=("$!:$file")
  done
  for entry in "${pids[@]}"; do
    wait "${entry%%:*}" || status=1
    file=${entry#*:}
    echo "$tool $file: $(grep -h 'SUMMARY' "$logs/$tool.$file.log" | tail -1 | tr -d '=') |" \
      "$(grep -hE '[0-9]+ (passed|failed)' "$logs/$tool.$file.log" | tail -1)"
  done
done
exit "$status"
