"""``specsim simulate``: run the engine on real text and compare with autoregressive decoding."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
import msgspec

from specsim.cli.interrupts import finish_undisturbed
from specsim.cli.output import (
    EXIT_CODES,
    Exit,
    Failed,
    finish,
    print_json,
    progress,
    remark,
    say,
)
from specsim.cli.rules import document_of
from specsim.cli.simulating import accepted, options, stored
from specsim.cli.simulating import drafting as drafts
from specsim.cli.simulating.checkpoints import ModelName, Opened, with_checkpoints
from specsim.cli.simulating.figures import print_figures
from specsim.cli.simulating.metrics import shown_metrics
from specsim.cli.simulating.sections import SECTIONS, Sections
from specsim.cli.simulating.timeline import with_timeline
from specsim.cli.simulating.verify_options import with_verification
from specsim.host.acceptance import Acceptance
from specsim.host.logit_rules import LogitRules
from specsim.host.metrics import DECODE_LOG_INTERVAL
from specsim.host.sampling import SamplingParameters
from specsim.rules.common import MODES
from specsim.simulation import report as runs
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.logprobs import MOST_TOP_LOGPROBS
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.pool_kinds import DRAFT_KINDS, RECURRENT_KINDS, PoolKind
from specsim.simulation.models.text_model import TextModel
from specsim.simulation.requests import Request
from specsim.simulation.schedule import IN_TURN, Schedule
from specsim.simulation.turns.recording import Watch
from specsim.simulation.verification import Verification
from specsim.simulation.worker import Worker

POOLS = [kind.value for kind in PoolKind]
DRAFT_POOLS = [kind.value for kind in DRAFT_KINDS]


@click.command(cls=Sections, sections=SECTIONS, epilog=EXIT_CODES)
@accepted.with_acceptance
@click.option(
    "--text", "path", type=click.Path(path_type=Path, readable=False), help="Text of the prompts and of the text model."
)
@click.option("--requests", "num_requests", default=8, show_default=True, type=click.IntRange(1), help="Prompt count.")
@click.option(
    "--algorithm",
    default="EAGLE",
    show_default=True,
    type=click.Choice(drafts.NAMES, case_sensitive=False),
    help="Algorithm that drafts. NGRAM, DFLASH and FROZEN_KV_MTP run on V1, or on V2 with --mode v2.",
)
@click.option("--drafter", metavar="MODULE:NAME", help="Drafter of a module, from its DRAFTERS, by the rules of EAGLE.")
@click.option("--multi-layer", type=click.IntRange(1), metavar="N", help="EAGLE with N layers, one a step of a draft.")
@click.option("--topk", type=click.IntRange(1), help="Beams: EAGLE 4, others 1; the largest breadth of NGRAM: 10.")
@click.option(
    "--steps", type=click.IntRange(0), help="Depth: EAGLE 5, --multi-layer N, others 3, NGRAM none; 0: no draft."
)
@click.option(
    "--draft-tokens",
    type=click.IntRange(1),
    help="Nodes of a draft, root included: EAGLE 16, NGRAM 12, a block of DFLASH 16, a chain one more than steps.",
)
@click.option(
    "--model",
    "kind",
    default="text",
    show_default=True,
    type=ModelName(),
    metavar="text|hash|hf:FOLDER",
    help="Toy model, or the checkpoint in a folder.",
)
@click.option(
    "--agreement",
    default=0.7,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="Share of right drafts of the hash model.",
)
@click.option(
    "--worker",
    default="reference",
    show_default=True,
    type=click.Choice(["reference", "gpu"]),
    help="Layer of the worker.",
)
@click.option(
    "--mode", default="auto", show_default=True, type=click.Choice(MODES), help="V1 or V2; auto asks the rules."
)
@click.option("--disable-overlap", is_flag=True, help="Schedule between iterations only, so that the rules choose V1.")
@click.option("--recurrent", is_flag=True, help="The target has mamba or linear-attention layers, as far as rules go.")
@click.option("--pool", default="mha", show_default=True, type=click.Choice(POOLS), help="KV of the target.")
@click.option("--draft-pool", default="mha", show_default=True, type=click.Choice(DRAFT_POOLS), help="KV of the draft.")
@click.option("--page-size", default=1, show_default=True, type=click.IntRange(1), help="Slots of a page.")
@click.option("--overlap/--no-overlap", default=False, help="Launch before a result is in (V2).  [default: off]")
@click.option("--chunk", type=click.IntRange(1), help="Prompt positions of a turn, at most.")
@click.option("--prefix-cache", is_flag=True, help="Start prompts after the prefix that earlier texts share with them.")
@click.option("--graphs/--no-graphs", default=None, help="CUDA graphs of the gpu worker; on wherever there is a GPU.")
@click.option("--lockstep", is_flag=True, help="Compare every phase of every iteration with the reference worker, too.")
@click.option("--eos", "eos_token", type=click.IntRange(0, 255), help="Byte that ends an output.")
@click.option("--stop", "stops", multiple=True, metavar="STRING", help="Text that ends an output; may be repeated.")
@click.option(
    "--stop-token",
    "stop_tokens",
    multiple=True,
    type=click.IntRange(0, 255),
    help="Byte that ends an output; repeatable.",
)
@click.option(
    "--min-new-tokens",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Number of tokens before a stop, at least.",
)
@click.option("--batch", default=8, show_default=True, type=click.IntRange(1), help="Requests that run at once.")
@click.option("--prompt-length", default=32, show_default=True, type=click.IntRange(1), help="Bytes of a prompt.")
@click.option("--max-new-tokens", default=32, show_default=True, type=click.IntRange(1), help="Tokens of an output.")
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0, 2**32 - 1), help="Seed of hash model and slots."
)
@with_verification
@with_checkpoints
@options.with_sampling
@options.with_store
@options.with_logit_rules
@with_timeline
@click.option(
    "--logprobs",
    type=click.IntRange(0, MOST_TOP_LOGPROBS),
    help="Return log-probabilities of output tokens and of so many alternatives, in --json; of the hash model.",
)
@click.option("--hidden-states", is_flag=True, help="Return the hidden state of each output token, in --json.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve Prometheus metrics; 0 is any free port.")
@click.option("--metrics-address", default="127.0.0.1", show_default=True, help="Interface of --metrics-port.")
@click.option(
    "--metrics-file", type=click.Path(path_type=Path, readable=False), help="Write metrics for the textfile collector."
)
@click.option(
    "--metrics-interval",
    default=DECODE_LOG_INTERVAL,
    show_default=True,
    type=click.IntRange(1),
    help="Batches between two reports.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def simulate(
    path: Path | None,
    num_requests: int,
    algorithm: str,
    drafter: str | None,
    multi_layer: int | None,
    topk: int | None,
    steps: int | None,
    draft_tokens: int | None,
    kind: str,
    agreement: float,
    worker: str,
    mode: str,
    disable_overlap: bool,
    recurrent: bool,
    pool: str,
    draft_pool: str,
    page_size: int,
    overlap: bool,
    chunk: int | None,
    prefix_cache: bool,
    graphs: bool | None,
    lockstep: bool,
    eos_token: int | None,
    stops: tuple[str, ...],
    stop_tokens: tuple[int, ...],
    min_new_tokens: int,
    batch: int,
    prompt_length: int,
    max_new_tokens: int,
    seed: int,
    metrics_port: int | None,
    metrics_address: str,
    metrics_file: Path | None,
    metrics_interval: int,
    as_json: bool,
    logprobs: int | None,
    hidden_states: bool,
    sampling: SamplingParameters | None,
    acceptance: str,
    store: options.StoreOptions,
    logit_rules: LogitRules | None,
    verification: Verification | None,
    checkpoint: Opened | None,
    watch: Watch,
    guard: accepted.Guard | None,
) -> None:
    """Decode prompts of a text, and compare with plain decoding.

    Prompts are cut out of the text, and every output is compared with autoregressive decoding. Without --text, the
    text is a few modules of Python's standard library. With --temperature the outputs are sampled, and compared
    with those of a second run, which decodes one request at a time, and without drafts if these are accepted by
    --acceptance target-draw. Penalties, biases, --min-tokens and --bad-word
    follow the output alone, and are evaluated in the same way in plain decoding; --min-new-tokens forbids nothing,
    and takes earlier stops for ordinary tokens. With --overlap, --lockstep compares overlapped runs.
    --logprobs and --hidden-states compare those of greedy requests with plain decoding's, and with --lockstep those
    of all requests between both workers. Drafts of NGRAM depend on all requests before, so that its sampled outputs
    are compared with a second run by target-draw alone. With --verify-budget what is verified of a request depends
    on those beside it, and sampled outputs are compared with those of a second run of the same batches, unless they
    are target-draws.
    """
    if drafter is None:
        record = drafts.drafter_of(algorithm, multi_layer)
    else:
        options.require_alone("--drafter", "algorithm", "multi_layer")
        record = drafts.drafter_named(drafter)
        algorithm = record.algorithm.value
        drafts.require_sides(record, (worker, "reference") if lockstep else (worker,))
    sizes = drafts.sizes_of(record, algorithm, multi_layer, topk, steps, draft_tokens)
    if math.isnan(agreement):
        raise Failed("--agreement is NaN, but should be 0 to 1", Exit.USAGE)
    if logprobs is not None and kind == "text":
        raise Failed("--logprobs needs --model hash: the text model has no logits that make a distribution", Exit.USAGE)
    text: Sequence[int] = b""
    prompts = None if checkpoint is None else checkpoint.prompts
    if prompts is None:
        text = options.read_text(path) if checkpoint is None else checkpoint.tokens(path)
    options.check_counts(
        num_requests=num_requests,
        topk=sizes[0],
        num_steps=sizes[1],
        num_draft_tokens=sizes[2],
        max_batch=batch,
        prompt_length=prompt_length,
        max_new_tokens=max_new_tokens,
        page_size=page_size,
        text_length=len(text) if prompts is None else prompt_length,
        vocab_size=options.HASH_VOCABULARY if checkpoint is None else checkpoint.target.vocab_size,
    )
    prompts = prompts or runs.cut_prompts(text, num_requests, prompt_length)
    is_recurrent, is_layered = recurrent or PoolKind(pool) in RECURRENT_KINDS, multi_layer is not None
    plan = drafts.plan_for(
        record, algorithm, sizes, draft_tokens, is_layered, batch, page_size, mode, disable_overlap, is_recurrent, store
    )
    drafting = store.fill(drafts.drafting_of(plan, record))
    config = drafts.config_of(drafting)
    options.check_slots(config, batch, prompt_length + max_new_tokens, page_size)
    if checkpoint is not None:
        checkpoint.check_positions(prompt_length + max_new_tokens, config.num_draft_tokens)
    schedule = drafts.schedule_for(plan, overlap, chunk, prefix_cache, verification)
    loaded = None if checkpoint is None else checkpoint.load()
    model, plain = (
        (loaded.model, loaded.model)
        if loaded is not None
        else drafts.toys_of(
            TextModel.from_text(bytes(text)) if kind == "text" else HashModel(options.HASH_VOCABULARY, seed, agreement),
            record,
            multi_layer,
            PoolKind(pool),
            PoolKind(draft_pool),
        )
    )
    ends = () if checkpoint is None else checkpoint.target.eos_tokens

    def fresh_requests() -> list[Request]:
        return runs.requests_of(
            prompts,
            max_new_tokens,
            eos_token,
            stop_tokens=(*stop_tokens, *ends),
            stop_strings=tuple(map(options.bytes_as_text, stops)),
            min_new_tokens=min_new_tokens,
            sampling=sampling,
            top_logprobs=logprobs,
            returns_hidden_states=hidden_states,
            logit_rules=logit_rules,
        )

    is_drawn, requests = acceptance == Acceptance.TARGET_DRAW, fresh_requests()
    is_compared_alone = sampling is not None and (is_drawn or not record.has_memory)
    is_compared_alone = is_compared_alone and (loaded is None or loaded.is_reproducible)

    def build(layer: str, max_batch: int, schedule: Schedule, reads: Reads = Reads.KEPT) -> Worker:
        made_for = (plan, record, layer, drafting, model, requests, max_batch, graphs, reads, schedule, acceptance)
        return drafts.build_worker(*made_for)

    chosen, alone, again = build(worker, batch, schedule), None, (1, IN_TURN) if is_drawn else schedule.again(batch)
    if is_compared_alone:
        alone = drafts.build_plain_worker(worker, plain, requests) if is_drawn else build(worker, *again)
    with (
        shown_metrics(config, kind, metrics_port, metrics_address, metrics_file) as on_interval,
        progress("requests") as on_progress,
    ):
        report = runs.simulate(
            chosen,
            requests,
            max_batch=batch,
            shuffle_seed=seed,
            on_step=None if on_progress is None else lambda done, total: on_progress("requests", done, total),
            decode_log_interval=metrics_interval,
            on_interval=on_interval,
            alone=alone,
            schedule=schedule,
            again=again,
            own=None if loaded is None else loaded.judge.start,
            watch=watch,
        )
    divergence = None
    if lockstep and not report.is_interrupted:
        believed, other = build("reference", batch, schedule, Reads.FULL), build(worker, batch, schedule)
        divergence = find_divergence(
            believed, other, fresh_requests(), max_batch=batch, shuffle_seed=seed, schedule=schedule
        )
    reasons = document_of(plan)["reasons"]
    figures = asdict(report)
    if not figures.pop("is_interrupted"):
        finish_undisturbed()
    figures |= {"pool": pool, "draft_pool": draft_pool}
    figures |= {"plan": {"worker": plan.worker, "reasons": reasons}}
    figures |= options.store_figures(chosen)
    figures |= {} if loaded is None else {"dtype": loaded.dtype, "near_ties": loaded.judge.figures()}
    figures |= {"divergence": divergence and str(divergence)} if lockstep else {}
    name = drafter or ("MULTI_LAYER" if is_layered else algorithm)
    cell = accepted.cell_of(name, record, sizes[0], config, plan.worker, sampling, requests)
    guards = None if guard is None or report.is_interrupted else guard(cell)
    figures |= {"acceptance": msgspec.to_builtins(cell)}
    figures |= {} if guards is None else {"guard": stored.public(guards)}
    for reported in figures["meta_info"]:
        if isinstance(reported["finish_reason"]["matched"], str):
            reported["finish_reason"]["matched"] = options.text_of_bytes(reported["finish_reason"]["matched"])
    if as_json:
        print_json(figures)
    else:
        print_figures(figures)
        for mismatch in report.mismatches:
            say(mismatch)
        if guards:
            stored.print_guards(guards, "")
    if report.is_interrupted:
        remark(f"specsim: interrupted: {report.requests} of {num_requests} requests have ended, and none is compared")
        finish(Exit.INTERRUPTED)
    found = [*report.mismatches, *([] if divergence is None else [str(divergence)])]
    ended = Exit.CONFORMS if guards is None else stored.exit_of(guards)
    finish(Exit.FAILURE if found else ended, "; ".join([f"lossless: {report.lossless}", *map(str, found)]))
