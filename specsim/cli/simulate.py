"""``specsim simulate``: run the engine on real text and compare with autoregressive decoding."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from specsim.cli.device import choose_device
from specsim.cli.output import EXIT_CODES, Exit, Failed, console, finish, plain_table, print_json, progress, remark
from specsim.config import SpecConfig
from specsim.counts import path_width
from specsim.simulation import engine
from specsim.simulation.language_models import HashModel, LanguageModel, TextModel, default_text
from specsim.simulation.lockstep import find_divergence
from specsim.simulation.scheduler import Request
from specsim.simulation.worker import Worker

HASH_VOCABULARY = 256


@click.command(epilog=EXIT_CODES)
@click.option("--text", "path", type=click.Path(path_type=Path), help="Text of the prompts and of the text model.")
@click.option("--requests", "num_requests", default=8, show_default=True, type=click.IntRange(1), help="Prompts.")
@click.option("--topk", default=4, show_default=True, type=click.IntRange(1), help="Beams of a draft.")
@click.option("--steps", default=5, show_default=True, type=click.IntRange(1), help="Depth of a draft.")
@click.option("--draft-tokens", default=16, show_default=True, type=click.IntRange(2), help="Nodes, root included.")
@click.option("--model", "kind", default="text", show_default=True, type=click.Choice(["text", "hash"]))
@click.option("--agreement", default=0.7, show_default=True, type=click.FloatRange(0, 1), help="Of the hash model.")
@click.option("--worker", default="reference", show_default=True, type=click.Choice(["reference", "gpu"]))
@click.option("--graphs/--no-graphs", default=None, help="CUDA graphs of the gpu worker; on wherever there is a GPU.")
@click.option("--lockstep", is_flag=True, help="Also compare every phase of every iteration with the reference worker.")
@click.option("--eos", "eos_token", type=click.IntRange(0, 255), help="Byte that ends an output.")
@click.option("--batch", default=8, show_default=True, type=click.IntRange(1), help="Requests that run at once.")
@click.option("--prompt-length", default=32, show_default=True, type=click.IntRange(1), help="Bytes of a prompt.")
@click.option("--max-new-tokens", default=32, show_default=True, type=click.IntRange(1), help="Tokens of an output.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**32 - 1), help="Hash model and slots.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def simulate(
    path: Path | None,
    num_requests: int,
    topk: int,
    steps: int,
    draft_tokens: int,
    kind: str,
    agreement: float,
    worker: str,
    graphs: bool | None,
    lockstep: bool,
    eos_token: int | None,
    batch: int,
    prompt_length: int,
    max_new_tokens: int,
    seed: int,
    as_json: bool,
) -> None:
    """Decode prompts cut out of a text and compare every output with autoregressive decoding.

    Without --text, the text is a few modules of Python's standard library.
    """
    if topk == 1 and draft_tokens != path_width(steps):
        remark(f"--draft-tokens {draft_tokens} becomes {path_width(steps)}: with --topk 1 a draft has one node a level")
        draft_tokens = path_width(steps)
    if math.isnan(agreement):
        raise Failed("--agreement is NaN, but should be 0 to 1", Exit.USAGE)
    config = SpecConfig(topk, steps, draft_tokens)
    text = read_text(path)
    model = TextModel.from_text(text) if kind == "text" else HashModel(HASH_VOCABULARY, seed, agreement)

    def fresh_requests() -> list[Request]:
        return engine.requests_from_text(text, num_requests, prompt_length, max_new_tokens, eos_token)

    requests = fresh_requests()
    chosen = build_worker(worker, config, model, requests, batch, graphs)
    with progress("requests") as on_progress:
        report = engine.simulate(
            chosen,
            requests,
            max_batch=batch,
            shuffle_seed=seed,
            on_step=None if on_progress is None else lambda done, total: on_progress("requests", done, total),
        )
    divergence = None
    if lockstep:
        believed = build_worker("reference", config, model, requests, batch, graphs)
        other = build_worker(worker, config, model, requests, batch, graphs)
        divergence = find_divergence(believed, other, fresh_requests(), max_batch=batch, shuffle_seed=seed)
    figures = asdict(report) | ({"divergence": divergence and str(divergence)} if lockstep else {})
    if as_json:
        print_json(figures)
    else:
        table = plain_table("figure", "#value")
        for name, value in figures.items():
            if name != "mismatches":
                table.add_row(name, f"{value:.4f}" if isinstance(value, float) else str(value))
        console().print(table)
        for mismatch in report.mismatches:
            click.echo(mismatch)
    finish(Exit.CONFORMS if report.lossless and divergence is None else Exit.FAILURE)


def read_text(path: Path | None) -> bytes:
    """Return the bytes of a text file, or of the default text.

    Raises
    ------
    Failed
        USAGE: the file cannot be read, or is empty.
    """
    if path is None:
        return default_text()
    try:
        text = path.read_bytes()
    except OSError as error:
        raise Failed(f"--text {path}: {error.strerror}", Exit.USAGE) from error
    if not text:
        raise Failed(f"--text {path}: the file is empty, but should hold at least one byte", Exit.USAGE)
    return text


def build_worker(
    kind: str,
    config: SpecConfig,
    model: LanguageModel,
    requests: Sequence[Request],
    max_batch: int,
    use_graphs: bool | None,
) -> Worker:
    """Return a worker whose pools hold these requests.

    Raises
    ------
    Failed
        UNAVAILABLE: the GPU path needs torch and Triton.
    """
    sizes = engine.sizes_for(config, requests, max_batch)
    if kind == "reference":
        from specsim.reference.worker import ReferenceWorker

        return ReferenceWorker(config, model, sizes)
    if choose_device() == "absent":
        raise Failed("the gpu worker needs torch and triton: pip install 'specsim[gpu]'", Exit.UNAVAILABLE)
    from specsim.gpu.worker import GpuWorker

    return GpuWorker(config, model, sizes, use_graphs)
