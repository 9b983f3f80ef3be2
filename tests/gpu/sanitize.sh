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
kernels="tests/gpu/test_acceptance.py tests/gpu/test_blocks_from_logits.py tests/gpu/test_chain_blocks.py tests/gpu/test_chains_from_logits.py
  tests/gpu/test_sampled_verify.py tests/gpu/test_scheduled.py tests/gpu/test_tree_attention.py
  tests/gpu/test_attention.py tests/gpu/test_compact.py tests/gpu/test_dflash.py tests/gpu/test_draft.py
  tests/gpu/test_draft_cache.py tests/gpu/test_extend.py tests/gpu/test_following.py tests/gpu/test_from_logits.py
  tests/gpu/test_frozen_kv.py tests/gpu/test_grammar.py tests/gpu/test_logprobs.py
  tests/gpu/test_move.py tests/gpu/test_multi_layer.py tests/gpu/test_pages.py tests/gpu/test_penalties.py tests/gpu/test_pools.py tests/gpu/test_probabilities.py
  tests/gpu/test_recurrent.py tests/gpu/test_slots.py tests/gpu/test_tree.py
  tests/gpu/test_verify.py $(ls tests/gpu/models/test_*.py)"
workers="tests/gpu/worker/test_pages.py tests/gpu/worker/test_sampling.py tests/gpu/worker/test_v1.py tests/gpu/worker/test_v2.py"
status=0
for tool in memcheck racecheck; do
  pids=()
  for path in $kernels $workers; do
    file=$(basename "$path" .py)
    allocator=(PYTORCH_NO_CUDA_MEMORY_CACHING=1)
    case "$path" in */worker/*) allocator=() file="worker_$file" ;; esac
    # NOTE: every shape and size of a batch on pages or of V1 takes minutes under a sanitizer; the kernels are the same.
    case "$path" in */worker/test_pages.py | */worker/test_v1.py) left_out=" and not every" ;; *) left_out="" ;; esac
    env "${allocator[@]}" compute-sanitizer --tool "$tool" --error-exitcode 9 python3 -m pytest -q "$path" \
      -p no:cacheprovider -k "not captur and not 31_bits and not 32_bits and not large and not graph and not synchronises$left_out" \
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
