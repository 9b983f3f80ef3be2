"""A run from the first request to the last token: its figures, and the comparison with autoregressive decoding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from specsim.assertion import require_present
from specsim.host.adaptive import AdaptiveController
from specsim.host.logit_rules import LogitRules
from specsim.host.metrics import DECODE_LOG_INTERVAL, interval_rates, meta_info
from specsim.host.sampling import LARGEST_SEED, SamplingParameters
from specsim.simulation.comparing.autoregressive import ExactDecoder, decode_alone, decoder_for
from specsim.simulation.comparing.reported_pairs import unreported
from specsim.simulation.engine import Engine, OnInterval
from specsim.simulation.models.description import TokenByToken
from specsim.simulation.requests import Request
from specsim.simulation.schedule import IN_TURN, Schedule
from specsim.simulation.turns.recording import UNWATCHED, Watch
from specsim.simulation.worker import Worker, is_telling


@dataclass(frozen=True)
class Report:
    """The figures of a run.

    ``accept_rate`` is accepted drafts over proposed drafts; ``tokens_per_verify`` counts the bonus token.
    ``histogram[k]`` is the number of verifies that accepted ``k`` drafts. ``intervals`` has one entry a report of the
    scheduler, ``meta_info`` one a request, under the names that engines print; ``spec_decode`` has acceptance by
    position, under those of vLLM.

    ``lossless`` compares greedy requests with autoregressive decoding and is None without any. ``reproducible``
    compares sampled requests with a second run one at a time, and is None without any or without a worker for it.
    ``scheduled_verify`` has how many drafts were verified, accepted and cut where an iteration had a budget of them.
    Budgets are a batch's, so that ``reproducible`` compares with a second run of the same batches then.
    ``is_interrupted`` says that only requests are counted that had ended, and none of them is compared.
    """

    lossless: bool | None
    requests: int
    output_tokens: int
    spec_verify_ct: int
    num_accepted_drafts: int
    accept_rate: float
    tokens_per_verify: float
    worker: str
    device: str
    num_iterations: int = 0
    mismatches: tuple[str, ...] = field(default=())
    histogram: tuple[int, ...] = ()
    intervals: tuple[dict[str, float | int], ...] = ()
    meta_info: tuple[dict[str, Any], ...] = ()
    reproducible: bool | None = None
    spec_decode: dict[str, Any] = field(default_factory=dict)
    is_interrupted: bool = False
    scheduled_verify: dict[str, Any] = field(default_factory=dict)


def simulate(
    worker: Worker,
    requests: Sequence[Request],
    *,
    max_batch: int,
    shuffle_seed: int | None = 0,
    on_step: Callable[[int, int], None] | None = None,
    decode_log_interval: int = DECODE_LOG_INTERVAL,
    on_interval: OnInterval | None = None,
    alone: Worker | None = None,
    adaptive: AdaptiveController | None = None,
    schedule: Schedule = IN_TURN,
    again: tuple[int, Schedule] | None = None,
    own: Callable[[Request], TokenByToken] | None = None,
    watch: Watch = UNWATCHED,
) -> Report:
    """Run requests to their end; compare greedy ones with autoregressive decoding, sampled ones with a second run.

    Autoregressive decoding is the model's own, in exact arithmetic, or else its prefill on the worker, which is idle
    when all requests have ended.

    Parameters
    ----------
    alone : Worker or None
        A fresh worker on which the sampled requests are decoded again.
    adaptive : AdaptiveController or None
        Decides how many steps every batch drafts.
    schedule : Schedule
        Overlap, chunks, cached prefixes.
    again : tuple of int and Schedule, or None
        In batches of which size, and how, they are decoded again; None for ``schedule.again``.
    own : callable or None
        Starts the autoregressive decoding of a greedy request, in the place of what the model says of itself.
    watch : Watch
        Gets launches and results, as a ``Recorder`` that draws the run.
    """
    engine = Engine(worker, max_batch, shuffle_seed, decode_log_interval, on_interval, adaptive, schedule, watch=watch)
    for request in requests:
        engine.submit(request)
    lost: list[str] = []
    changed: list[str] = []
    greedy: list[Request] = []
    sampled: list[Request] = []
    is_interrupted = False
    try:
        done = engine.run(on_step)
        engine.scheduler.check_ledger()
        greedy = [request for request in done if request.is_greedy]
        sampled = [request for request in done if not request.is_greedy]
        lost = [line for request in greedy for line in _mismatches(worker, request, own)]
        if is_telling(worker):
            asked = [request for request in greedy if request.choice.wants_report and request.grammar is None]
            lost += [line for request in asked for line in unreported(worker, request)]
        if alone is not None:
            most, how = again or schedule.again(max_batch)
            changed = _changes(Engine(alone, most, shuffle_seed, schedule=how), sampled if most == 1 else done)
    except KeyboardInterrupt:
        is_interrupted, greedy, sampled = True, [], []
        done = sorted(engine.scheduler.finished, key=lambda request: request.request_id)
    num_verifies = sum(request.counters.num_verifies for request in done)
    num_accepted_drafts = sum(request.counters.num_accepted_drafts for request in done)
    rates = interval_rates(num_accepted_drafts, num_verifies, engine.num_drafts_per_round)
    return Report(
        lossless=not lost if greedy else None,
        requests=len(done),
        output_tokens=sum(len(request.output) for request in done),
        spec_verify_ct=num_verifies,
        num_accepted_drafts=num_accepted_drafts,
        accept_rate=rates.accept_rate,
        tokens_per_verify=rates.tokens_per_verify,
        worker=worker.name,
        device=worker.device,
        num_iterations=engine.num_iterations,
        mismatches=(*lost, *changed),
        histogram=tuple(map(sum, zip_longest(*(request.counters.histogram for request in done), fillvalue=0))),
        intervals=tuple(stats.public() for stats in engine.intervals),
        meta_info=tuple(_reported(request, engine.num_drafts_per_round) for request in done),
        reproducible=not changed if sampled and alone is not None else None,
        spec_decode=engine.positions.public(),
        is_interrupted=is_interrupted,
        scheduled_verify={} if schedule.verification is None else engine.verified.public(),
    )


def cut_prompts(text: Sequence[int], count: int, length: int) -> list[list[int]]:
    """Cut prompts out of a text, evenly spread; byte values are token ids."""
    span = max(len(text) - length, 1)
    return [list(text[index * span // count : index * span // count + length]) for index in range(count)]


def requests_of(
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    eos_token: int | None = None,
    *,
    stop_tokens: Sequence[int] = (),
    stop_strings: Sequence[str] = (),
    min_new_tokens: int = 0,
    sampling: SamplingParameters | None = None,
    top_logprobs: int | None = None,
    returns_hidden_states: bool = False,
    logit_rules: LogitRules | None = None,
) -> list[Request]:
    """Return a request a prompt, all alike; each has the next sampling seed."""
    return [
        Request(
            request_id=index,
            prompt=prompt,
            max_new_tokens=max_new_tokens,
            eos_token=eos_token,
            stop_tokens=stop_tokens,
            stop_strings=stop_strings,
            min_new_tokens=min_new_tokens,
            top_logprobs=top_logprobs,
            returns_hidden_states=returns_hidden_states,
            logit_rules=logit_rules,
            sampling=sampling and replace(sampling, seed=(sampling.seed + index) % (LARGEST_SEED + 1)),
        )
        for index, prompt in enumerate(prompts)
    ]


def requests_from_text(
    text: Sequence[int],
    count: int,
    prompt_length: int,
    max_new_tokens: int,
    eos_token: int | None = None,
    **others: Any,
) -> list[Request]:
    """Return requests whose prompts are cut out of a text."""
    return requests_of(cut_prompts(text, count, prompt_length), max_new_tokens, eos_token, **others)


def _mismatches(worker: Worker, request: Request, own: Callable[[Request], TokenByToken] | None) -> list[str]:
    """Return at most one line: where the request's output, or else its end, is not the autoregressive one."""
    matcher = None if request.grammar is None else request.grammar()
    choice = request.choice_alone(matcher)
    decoder = decoder_for(worker, choice) if own is None else ExactDecoder(own(request), choice)
    expected, finish = decode_alone(decoder, request.prompt, request.rules, matcher)
    if request.output != expected:
        pairs = zip(request.output, expected, strict=False)
        place = next((i for i, (got, wanted) in enumerate(pairs) if got != wanted), -1)
        return [f"request {request.request_id}, output[{place}]: {request.output} is not {expected}"]
    if request.finish != finish:
        return [f"request {request.request_id}, finish: {request.finish} is not {finish}"]
    return []


def _changes(engine: Engine, requests: Sequence[Request]) -> list[str]:
    """Return a line for each request that emits something else when another engine decodes it again."""
    for request in requests:
        engine.submit(request.fresh())
    return [
        f"request {request.request_id}, decoded again: {again.output} is not {request.output}"
        for request, again in zip(requests, engine.run(), strict=True)
        if (again.output, again.finish) != (request.output, request.finish)
    ]


def _reported(request: Request, num_drafts_per_round: int) -> dict[str, Any]:
    """Return the request's ``meta_info``: its end, its tokens, its reports, and figures of its speculation."""
    finish = require_present(f"finish of request {request.request_id}", request.finish)
    return {
        "id": request.request_id,
        "finish_reason": {"type": str(finish.reason), "matched": finish.matched},
        "prompt_tokens": len(request.prompt),
        "completion_tokens": len(request.output),
        **_logprobs(request),
        **({"hidden_states": request.hidden_states} if request.returns_hidden_states else {}),
        **meta_info(request.counters, len(request.output), num_drafts_per_round),
    }


def _logprobs(request: Request) -> dict[str, Any]:
    """Return what was reported of its tokens: pairs of log-probability and token; nothing if it did not ask."""
    if request.top_logprobs is None:
        return {}
    return {
        "output_token_logprobs": [[one.logprob, one.token] for one in request.logprobs],
        "output_top_logprobs": [[[score, token] for token, score in one.top] for one in request.logprobs],
    }
