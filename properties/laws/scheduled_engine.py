"""Laws of whole runs whatever the schedule: overlap, chunks, retraction and abort change no token and lose no slot."""

from dataclasses import replace
from fractions import Fraction

from specsim.conformance.backend import Backend
from specsim.host.stopping import FinishReason
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.histories import tagged_pools
from specsim.properties.laws.support.scheduled_runs import (
    ScheduledRun,
    aborted_runs,
    finished,
    overlapped_runs,
    play,
    scheduled_runs,
)
from specsim.properties.laws.worker import check_tags, expected_tags
from specsim.properties.property import OF_ENGINES
from specsim.simulation.models.ground_truth import greedy_decode

DECISIONS = (
    "chunk_length",
    "is_late",
    "stream_edges",
    "truncate_at_stop",
    "SlotAllocator",
    "PageAllocator",
    "RowAllocator",
    "RadixCache",
    "admit_request",
    "allocate_chunk",
    "make_room",
    "new_tokens_required_next_decode",
    "owned_length",
    "prepare_for_decode",
    "publish_prefix",
    "release_finished",
    "release_retracted",
)
"""What the scheduler and the results of a run ask, and what its memory is built from."""


def schedules_change_no_token(backend: Backend, run: ScheduledRun) -> None:
    """Every request outputs what it outputs token by token; an aborted one as much of it as it came to."""
    engine = run.engine(backend)
    for _ in play(run, engine):
        pass
    done = finished(engine)
    expected_ids = list(range(len(run.scenario.arrivals)))
    require([one.request_id for one in done] == expected_ids, "ended requests", len(done), len(expected_ids))
    for request in done:
        what = f"output of request {request.request_id}"
        if request.finish_reason is FinishReason.ABORT:
            require(request.request_id in run.aborted, what, "aborted", "decoded to its end")
            whole = greedy_decode(run.scenario.model, request.prompt, max(len(request.output), 1))
            require(request.output == whole[: len(request.output)], what, request.output, whole)
            continue
        expected = greedy_decode(run.scenario.model, request.prompt, request.max_new_tokens, request.eos_token)
        require(request.output == expected, what, request.output, expected)


def schedules_lose_no_slot(backend: Backend, run: ScheduledRun) -> None:
    """After every step each slot and row has one owner, and at the end none has."""
    engine = run.engine(backend)
    scheduler = engine.scheduler
    for _ in play(run, engine):
        scheduler.check_ledger()
        num_holders = len(scheduler.holders)
        require(num_holders <= scheduler.max_batch, "requests with a row", num_holders, scheduler.max_batch)
    sizes, cache = scheduler.sizes, scheduler.memory.cache
    free, everything = scheduler.memory.allocator.num_free, sizes.num_slots - sizes.page_size
    free += 0 if cache is None else cache.num_cached
    require(free == everything, "free and cached slots at the end", free, everything)
    num_free = scheduler.memory.rows.num_free
    require(num_free == sizes.num_rows - 1, "free rows at the end", num_free, "all")


def committed_kv_outlives_every_schedule(backend: Backend, run: ScheduledRun) -> None:
    """Whatever is queued, what is committed and resolved holds the tags of its own tokens, in target and draft."""
    engine = run.engine(backend)
    for _ in play(run, engine):
        state = engine.worker.state()
        unanswered = engine.scheduler.unanswered
        for request in engine.scheduler.running:
            if any(request is one for one in unanswered):
                continue
            expected = expected_tags(run.scenario.model, request.fill)
            for name, tags in zip(tagged_pools(backend), expected, strict=False):
                check_tags(name, state[name], request, tags)


def an_abort_ends_at_the_next_result(backend: Backend, run: ScheduledRun) -> None:
    """A running request that is aborted ends with its next result: V1 outputs one token of it, V2 all of them.

    Whatever it owns goes back.
    """
    engine = run.engine(backend)
    flagged: dict[int, int] = {}
    for step in play(run, engine):
        engine.scheduler.check_ledger()
        for request in engine.scheduler.finished:
            if request.request_id in flagged and run.scenario.is_v1:
                got, expected = len(request.output), flagged[request.request_id] + 1
                require(got <= expected, f"output of aborted request {request.request_id}", got, f"at most {expected}")
        waiting = engine.scheduler.unanswered
        late = [one for one in engine.scheduler.running if one.request_id in flagged and one not in waiting]
        require(not late, f"aborted requests that run after step {step}", [one.request_id for one in late], "none")
        flagged = {
            request.request_id: len(request.output)
            for request in engine.scheduler.running
            if request.request_id in {number for when, number in run.aborts if when == step + 1}
        }


def overlap_changes_no_counter(backend: Backend, run: ScheduledRun) -> None:
    """Without retractions a request counts, outputs and ends the same whether its results come at once or late."""
    calm = replace(run, retractions=(), schedule=replace(run.schedule, promised=Fraction(1)))
    in_turn = replace(calm, schedule=replace(calm.schedule, is_overlapped=False))
    engines = [one.engine(backend) for one in (calm, in_turn)]
    for one, engine in zip((calm, in_turn), engines, strict=True):
        for _ in play(one, engine):
            pass
    for late, early in zip(*(finished(engine) for engine in engines), strict=True):
        for name in ("output", "finish", "counters"):
            got, expected = vars(late)[name], vars(early)[name]
            require(got == expected, f"{name} of request {late.request_id}", got, expected)


PROPERTIES = tuple(
    state_of_runs("scheduled_engine", law, strategy, DECISIONS, catalogue, OF_ENGINES)
    for law, catalogue, strategy in (
        (schedules_change_no_token, "P55", scheduled_runs),
        (schedules_lose_no_slot, "P38", scheduled_runs),
        (committed_kv_outlives_every_schedule, "P56", overlapped_runs),
        (overlap_changes_no_counter, "P55", overlapped_runs),
        (an_abort_ends_at_the_next_result, "P55", aborted_runs),
    )
)
