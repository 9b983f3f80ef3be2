"""Predicted beside measured iterations of a random Llama of 1 billion parameters, and what a choice by costs is worth.

``python -m tests.tuning.measure_on_gpu`` measures a file of costs, times whole iterations of 24 configurations, and
compares; with ``--toy`` it does the same to a tiny model, on a CPU too. Iterations are one CUDA graph each where there
is a GPU, and eager on a CPU. It ends with 1 if a time is off by more than 15 %, or a choice by more than 5 %; a toy is
not judged.
"""

import argparse
import json
import sys
from pathlib import Path
from time import perf_counter

import msgspec
import torch

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.bench.costs import Probes, accepted_of, iteration_seconds
from specsim.gpu.bench.llama import TOY, DialledLlama
from specsim.tuning.costs import Shape, content_of
from specsim.tuning.measuring import measured_costs

DRAFTS = (
    SpecConfig(1, 1, 2),
    SpecConfig(1, 2, 3),
    SpecConfig(1, 3, 4),
    SpecConfig(1, 5, 6),
    SpecConfig(2, 3, 6),
    SpecConfig(4, 3, 8),
    SpecConfig(4, 4, 16),
    SpecConfig(8, 4, 32),
)
BATCHES, LENGTH = (1, 8, 64), 256
MOST_ERROR, MOST_LOSS = 0.15, 0.05
NUM_PROMPTS, PROMPT, NEW_TOKENS = 64, 16, 48
TOY_PROBES = Probes((1, 2), (2, 4), (1, 2), (4, 8), (SpecConfig(1, 1, 2), SpecConfig(2, 2, 4)), 1)


def prompts_of(seed, count, vocab_size):
    """Return random prompts: the last token decides how a text goes on."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocab_size, (count, PROMPT), generator=generator).tolist()


def tokens_a_verify(accepted):
    """Return output tokens of a verify: its accepted drafts and the bonus token."""
    num_verifies, num_accepted_drafts = map(sum, zip(*accepted, strict=True))
    return (num_accepted_drafts + num_verifies) / num_verifies


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="a tiny model and few sizes")
    parser.add_argument("--agreement", type=float, default=0.7)
    parser.add_argument("--save", type=Path, help="folder for costs.json and rows.json")
    options = parser.parse_args(arguments)
    start = perf_counter()

    def say(line):
        print(f"{perf_counter() - start:6.1f} s  {line}", flush=True)

    drafts, batches, length, probes = DRAFTS, BATCHES, LENGTH, Probes()
    if options.toy:
        sizes = {"target": TOY, "draft": TOY, "vocab_size": 256, "dtype": "float32"}
        drafts, batches, length, probes = (SpecConfig(1, 1, 2), SpecConfig(2, 2, 4)), (1, 2), 6, TOY_PROBES
    else:
        sizes = {}
    model = DialledLlama(options.agreement, DEVICE, **sizes)
    name = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "cpu"
    say(f"{name}; torch {torch.__version__}; {'one CUDA graph an iteration' if DEVICE.type == 'cuda' else 'eager'}")

    seen = [""]

    def on_progress(what, done, total):
        if what.split()[0] != seen[0]:
            seen[0] = what.split()[0]
            say(f"measuring {seen[0]} ({done} of {total})")

    costs = measured_costs(model, probes, on_progress)
    times = costs.iteration_times
    say(f"costs measured; rest {msgspec.to_builtins(times.rest)}; error {costs.error:.1%}")

    count, new_tokens = (2, 6) if options.toy else (NUM_PROMPTS, NEW_TOKENS)

    def tokens_by_draft(seed):
        prompts = prompts_of(seed, count, model.description.vocab_size)
        return {one: tokens_a_verify(accepted_of(model, one, prompts, new_tokens)) for one in drafts}

    calibrated, judged = tokens_by_draft(1), tokens_by_draft(2)
    say("accepted drafts counted, on prompts to choose by and on others to judge by")
    rows = []
    for batch in batches:
        for one in drafts:
            measured = iteration_seconds(model, one, batch, length, probes.repeats)
            predicted = times.iteration(Shape.of(one), batch, length)
            rows.append(
                {
                    "batch": batch,
                    "config": (one.topk, one.num_steps, one.num_draft_tokens),
                    "predicted_ms": predicted * 1e3,
                    "measured_ms": measured * 1e3,
                    "ratio": predicted / measured,
                    "tokens_per_verify": judged[one],
                    "predicted_tokens_per_s": batch * calibrated[one] / predicted,
                    "measured_tokens_per_s": batch * judged[one] / measured,
                }
            )
            row = rows[-1]
            say(
                f"batch {batch:3} topk {one.topk} steps {one.num_steps} nodes {one.num_draft_tokens:2}: predicted "
                f"{row['predicted_ms']:8.3f} ms, measured {row['measured_ms']:8.3f} ms, ratio {row['ratio']:.3f}; "
                f"{row['tokens_per_verify']:.2f} tokens a verify (chosen by {calibrated[one]:.2f}), "
                f"{row['predicted_tokens_per_s']:9.1f} / {row['measured_tokens_per_s']:9.1f} tokens/s"
            )
    worst = max(abs(row["ratio"] - 1) for row in rows)
    losses = []
    for batch in batches:
        here = [row for row in rows if row["batch"] == batch]
        picked = max(here, key=lambda row: row["predicted_tokens_per_s"])
        best = max(here, key=lambda row: row["measured_tokens_per_s"])
        losses.append(1 - picked["measured_tokens_per_s"] / best["measured_tokens_per_s"])
        say(f"batch {batch:3}: picked {picked['config']}, best {best['config']}, loss {losses[-1]:.1%}")
    say(f"{len(rows)} configurations: largest error {worst:.1%}, largest loss of a pick {max(losses):.1%}")
    if options.save is not None:
        (options.save / "costs.json").write_bytes(content_of(costs))
        (options.save / "rows.json").write_text(json.dumps(rows, indent=1))
    return int(not options.toy and (worst > MOST_ERROR or max(losses) > MOST_LOSS))


if __name__ == "__main__":
    sys.exit(main())
