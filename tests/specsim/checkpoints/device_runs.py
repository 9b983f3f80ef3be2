"""Runs of checkpoints of random numbers on a device, judged by margin, with their tokens a second.

``python -m tests.specsim.checkpoints.device_runs --help`` says what it takes; without a GPU it needs
``TRITON_INTERPRET=1`` and small sizes.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

import torch

from specsim.checkpoints.causal_lm import CausalLM
from specsim.checkpoints.folder import open_folder
from specsim.checkpoints.model import CheckpointModel
from specsim.checkpoints.near_ties import Judge
from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.switches import simulating_graphs
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.simulation.engine import Engine
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import requests_of, simulate
from tests.specsim.checkpoints.tiny import ARCHITECTURES, config_of, save_checkpoint

CONFIGS = {"chain": SpecConfig(1, 3, 4), "tree": SpecConfig(4, 3, 8)}
LATER = 0.05
"""By how much the layers that the draft lacks are scaled down, so that it agrees with the target now and then."""


def save_pair(folder, architecture, given):
    """Write a target, and a draft that is its first layers."""
    sizes = {"vocab_size": given.vocab, "hidden": given.hidden, "heads": given.heads, "kv_heads": given.kv_heads}
    config = config_of(architecture, **sizes, layers=given.layers, spread=given.spread, dtype=given.dtype)
    target = save_checkpoint(folder / "target", config, seed=1)
    first = config_of(architecture, **sizes, layers=given.draft_layers, spread=given.spread, dtype=given.dtype)
    draft = save_checkpoint(folder / "draft", first, seed=2)
    with torch.no_grad():
        for layer in target.base_model.layers[given.draft_layers :]:
            for name, weight in layer.named_parameters():
                if weight.dim() == 2 and any(part in name for part in ("o_proj", "down_proj", "dense.", "4h_to_h")):
                    weight.mul_(LATER)
    draft.load_state_dict({name: one for name, one in target.state_dict().items() if name in draft.state_dict()})
    target.save_pretrained(folder / "target")
    draft.save_pretrained(folder / "draft")


def timed(worker, asked, max_batch):
    """Return tokens a second of a run that has run before, so that what is compiled and captured is there."""
    for _ in range(2):
        engine = Engine(worker, max_batch)
        for request in asked:
            engine.submit(request.fresh())
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        begun = time.perf_counter()
        done = engine.run()
        seconds = time.perf_counter() - begun
    return sum(len(request.output) for request in done) / seconds


def generate_rate(model, prompt, new_tokens):
    """Return tokens a second of ``generate`` over one prompt."""
    ids = torch.tensor([list(prompt)], device=DEVICE)
    with model.by_itself() as network:
        for _ in range(2):
            begun = time.perf_counter()
            network.generate(ids, max_new_tokens=new_tokens, do_sample=False, pad_token_id=0)
            seconds = time.perf_counter() - begun
    return new_tokens / seconds


def main():
    """Run every architecture, chain and tree, at every batch size; print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default, what in (
        ("vocab", 32_000, "tokens of the vocabulary"),
        ("hidden", 1024, "width of a hidden state"),
        ("heads", 16, "query heads"),
        ("kv-heads", 4, "heads of keys and values"),
        ("layers", 8, "layers of the target"),
        ("draft-layers", 2, "layers of the draft, the first ones of the target"),
        ("prompt", 64, "tokens of the longest prompt"),
        ("new-tokens", 48, "tokens that a request outputs"),
        ("page-size", 1, "slots of a page"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=what)
    parser.add_argument("--spread", type=float, default=0.05, help="standard deviation of weights")
    parser.add_argument("--dtype", default="bfloat16", help="type of weights, keys and values")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16], help="requests that run together")
    parser.add_argument("--architectures", nargs="+", default=list(ARCHITECTURES), help="kinds of checkpoints")
    parser.add_argument("--workers", nargs="+", default=["graphs", "eager", "v1"], help="how the worker runs")
    given = parser.parse_args()
    drawn, losses = random.Random(0), 0
    for architecture in given.architectures:
        with tempfile.TemporaryDirectory() as folder:
            save_pair(Path(folder), architecture, given)
            dtype = getattr(torch, given.dtype)
            target, draft = (
                CausalLM(open_folder(Path(folder) / one), DEVICE, dtype, has_kernels=True)
                for one in ("target", "draft")
            )
            model = CheckpointModel(target, draft)
            own = generate_rate(target, [1, 2, 3], given.new_tokens)
            capturable = model.description.is_capturable
            print(f"{architecture} {given.dtype}: generate {own:.0f} tokens/s, capturable: {capturable}", flush=True)
            for shape, config in CONFIGS.items():
                for size in given.batches:
                    prompts = [
                        [drawn.randrange(given.vocab) for _ in range(1 + drawn.randrange(given.prompt))]
                        for _ in range(size)
                    ]
                    asked = requests_of(prompts, given.new_tokens)
                    for how in given.workers if size == max(given.batches) else given.workers[:1]:
                        loop = GpuWorkerV1 if how == "v1" else GpuWorker
                        pools = sizes_for(config, asked, size, given.page_size)
                        with simulating_graphs():
                            worker = loop(config, model, pools, use_graphs=how == "graphs")
                            rate = timed(worker, asked, size)
                            judge = Judge(target)
                            report = simulate(worker, [one.fresh() for one in asked], max_batch=size, own=judge.start)
                        ties = judge.figures()
                        print(
                            f"  {shape}, batch {size}, {how}: {'lossless' if report.lossless else 'LOSES'}, "
                            f"{report.output_tokens} tokens, near ties {ties['count']} (largest margin "
                            f"{ties['largest_margin']:.3g} of {ties['allowed'] or 0:.3g}), "
                            f"{report.tokens_per_verify:.2f} tokens a verify, {rate:.0f} tokens/s",
                            flush=True,
                        )
                        for line in report.mismatches:
                            print(f"    {line}")
                        losses += not report.lossless
                        del worker
    raise SystemExit(losses)


if __name__ == "__main__":
    main()
