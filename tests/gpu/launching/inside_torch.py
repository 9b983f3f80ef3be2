"""The operators of ``torch.ops.specsim`` inside torch: what tests, and a run on a GPU, check of each of them.

``python -m tests.gpu.launching.inside_torch`` prints a line an operator: whether ``opcheck`` passes, and whether
``torch.compile(fullgraph=True)`` returns what the plain function returns, once for one size and once for any. Last it
compiles a whole iteration, and measures what an operator costs on the host. It ends with 1 if anything failed.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from timeit import Timer

import torch

from specsim import gpu
from specsim.gpu import exports
from specsim.gpu.arrays import DEVICE
from specsim.gpu.launching.examples import SMALL, example
from specsim.gpu.switches import poisoned
from specsim.operations import RECORDS

PATTERN = 0x5A
"""Bytes of fresh memory, so that entries which carry no meaning are equal, too."""

TOPK, NUM_NODES, VOCAB_SIZE = 2, 6, 4

ON_GPU = torch.cuda.is_available()


def sizes_of(num_requests):
    """Return small sizes for so many requests."""
    each = dict.fromkeys(("request", "padded_request", "num_padded_requests", "unfinished"), num_requests)
    tokens = dict.fromkeys(("token", "num_tokens", "location"), 8 * num_requests)
    other = {"row": num_requests + 2, "drafted": 3 * num_requests, "pair": 4 * num_requests}
    return {**SMALL, **each, **tokens, **other}


def arguments_of(name, num_requests=1):
    """Return an example in which every token is one of a request, and every list a plain one."""
    sizes = SMALL if num_requests == 1 else sizes_of(num_requests)
    arguments = {
        key: list(value) if isinstance(value, tuple) else value for key, value in example(name, sizes, DEVICE).items()
    }
    if {"extend_start_loc", "extend_seq_lens"} <= arguments.keys():
        # NOTE: requests whose windows overlap write the same rows, and which of them does so last is open.
        each = arguments["input_ids"].numel() // num_requests
        arguments["extend_seq_lens"][:] = each
        arguments["extend_start_loc"][:] = each * torch.arange(num_requests, device=DEVICE)
    if "cu_seqlens_q" in arguments:
        arguments["cu_seqlens_q"][-1] = arguments["input_ids"].numel()
    return arguments


def check_operator(operator, arguments):
    """Return what ``opcheck`` finds, by its tests that fail."""
    with poisoned(PATTERN):
        found = torch.library.opcheck(operator, (), arguments, raise_exception=False)
    return {test: str(outcome) for test, outcome in found.items() if outcome != "SUCCESS"}


def compile_operator(name, backend, batches=(1,)):
    """Compile a call into one graph, for any batch if there are several, that returns and writes what it should."""
    compiled, num_graphs = compiled_by(getattr(torch.ops.specsim, name), backend, dynamic=len(batches) > 1)
    for num_requests in batches:
        arguments, others = arguments_of(name, num_requests), arguments_of(name, num_requests)
        with poisoned(PATTERN):
            expected = vars(gpu)[name](**arguments)
            got = compiled(**others)
        written = RECORDS[name].contract.writes
        assert_equal(got, tuple(expected) if isinstance(expected, tuple) else expected)
        assert_equal([others[one] for one in written], [arguments[one] for one in written])
    assert num_graphs() == 1


def compiled_by(function, backend, **options):
    """Return a function compiled without a break, and what counts its graphs."""
    # NOTE: it imports Triton, which must not be before the device is known.
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)

    def call(**given):
        return function(**given)

    return torch.compile(call, fullgraph=True, backend=counter, **options), lambda: counter.frame_count


def assert_equal(got, expected):
    """Compare tensors, or lists of tensors, bit for bit."""
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def drafts_of(num_requests, num_steps=3, seed=0):
    """Return what an iteration takes: the drafts of each step, logits of the target, last tokens and lengths."""
    generator = torch.Generator().manual_seed(seed)
    drafted = [
        torch.rand(num_requests * (TOPK if step else 1), VOCAB_SIZE, generator=generator).softmax(-1).topk(TOPK)
        for step in range(num_steps)
    ]
    return {
        "topk_p": [scores.to(DEVICE) for scores, _ in drafted],
        "topk_index": [index.to(DEVICE) for _, index in drafted],
        "logits": torch.rand(num_requests * NUM_NODES, VOCAB_SIZE, generator=generator).to(DEVICE),
        "bonus_tokens": torch.arange(num_requests, device=DEVICE) % VOCAB_SIZE,
        "seq_lens": torch.arange(num_requests, device=DEVICE) + 10,
    }


def iterate(operations, topk_p, topk_index, logits, bonus_tokens, seq_lens):
    """Keep beams, build a tree of them and verify it, by the operations of either namespace."""
    num_requests, num_steps, scores = seq_lens.shape[0], len(topk_p), None
    blocks = []
    for step in range(num_steps):
        kept = operations.select_top_k_tokens(step, topk_p[step], topk_index[step], None, scores, TOPK)
        scores = kept[2]
        blocks.append(kept[3:])
    drafts = operations.organize_draft_results(*map(list, zip(*blocks, strict=True)), NUM_NODES)
    draft_token, *links, positions, tree_mask = operations.build_tree(
        bonus_tokens, *drafts, seq_lens, TOPK, num_steps, NUM_NODES
    )
    target_predict = logits.argmax(-1).view(num_requests, NUM_NODES)
    predict, accept_index, num_accepted_drafts = operations.verify_tree_greedy(
        draft_token.view(num_requests, NUM_NODES), *links, target_predict, num_steps
    )
    accept_tokens = operations.gather_accept_tokens(predict, accept_index)
    bonus_tokens = operations.fill_bonus_tokens(accept_tokens, num_accepted_drafts + 1)
    return draft_token, positions, tree_mask, accept_index, num_accepted_drafts, bonus_tokens


def compile_iteration(backend, batches, in_a_graph=False):
    """Compile a whole iteration, on a GPU also in a CUDA graph, into one graph that returns what the functions do."""
    function = partial(iterate, torch.ops.specsim)
    if in_a_graph:
        torch._dynamo.reset()
        compiled = torch.compile(function, fullgraph=True, mode="reduce-overhead")
    else:
        compiled, num_graphs = compiled_by(function, backend, dynamic=len(batches) > 1)
    num_accepted_drafts = 0
    for num_requests in batches:
        for seed in range(4):
            given = drafts_of(num_requests, seed=seed)
            with poisoned(PATTERN):
                expected = iterate(gpu, **given)
                assert_equal(compiled(**given), expected)
            num_accepted_drafts += int(expected[-2].sum())
    assert num_accepted_drafts
    if in_a_graph:
        assert not torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]
    else:
        assert num_graphs() == 1


def main():
    """Check every operator, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=exports.__all__, metavar="OPERATION")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--backend", default="inductor" if ON_GPU else "aot_eager")
    chosen = parser.parse_args()
    # NOTE: each process compiles by itself, and none of them starts more.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name() if ON_GPU else 'the CPU'}, {chosen.backend}")
    begun, failed = time.monotonic(), 0
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn")) as pool:
        found = pool.map(_examine, chosen.names, [chosen.backend] * len(chosen.names))
        for name, outcomes in zip(chosen.names, found, strict=True):
            failed += any(outcome != "passes" for outcome in outcomes.values())
            print(f"{name}: {', '.join(f'{what} {outcome}' for what, outcome in outcomes.items())}", flush=True)
    whole = {"an iteration": partial(compile_iteration, chosen.backend, (5, 3, 7))}
    if ON_GPU:
        whole["the same in a CUDA graph"] = partial(compile_iteration, "inductor", (3,), in_a_graph=True)
    for what, check in whole.items():
        outcome = _outcome_of(check)
        failed += outcome != "passes"
        print(f"{what}: compiled {outcome}", flush=True)
    if ON_GPU:
        _print_costs()
    print(f"{len(chosen.names)} operators, {failed} failures, {time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


def _examine(name, backend):
    operator = getattr(torch.ops.specsim, name).default
    return {
        "opcheck": _outcome_of(lambda: check_operator(operator, arguments_of(name))),
        "compiled": _outcome_of(partial(compile_operator, name, backend)),
        "compiled for any batch": _outcome_of(partial(compile_operator, name, backend, (5, 3))),
    }


def _outcome_of(check):
    try:
        found = check()
    except Exception as error:
        return f"FAILS ({type(error).__name__}: {' '.join(str(error).split())[:300]})"
    return f"FAILS ({found})" if isinstance(found, dict) and found else "passes"


def _print_costs():
    """Print what a call costs on the host: plain, and as an operator."""
    arguments = list(arguments_of("verify_tree_greedy").values())
    ways = {"plain": gpu.verify_tree_greedy, "operator": torch.ops.specsim.verify_tree_greedy}
    for mode in (torch.inference_mode, torch.no_grad):
        for what, function in ways.items():
            with mode():
                timer = Timer(partial(function, *arguments))
                timer.timeit(10)
                torch.cuda.synchronize()
                best = min(timer.repeat(number=300, repeat=7)) / 300
            print(f"verify_tree_greedy, {mode.__name__}, {what}: {best * 1e6:.1f} us on the host")


if __name__ == "__main__":
    sys.exit(main())
