"""Laws of whole runs on pages: nothing is lost, nothing leaks, and every beam finds the end of its text."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specsim.conformance.arrays import Array
from specsim.conformance.backend import EAGLE_V1, EAGLE_V2, Backend, load
from specsim.conformance.completed import Completed
from specsim.counts import floor_to
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.histories import (
    Scenario,
    believed_worker,
    model_for,
    own_worker,
    paged_scenarios,
    play,
    start,
)
from specsim.properties.laws.support.watched import Buffers, PageOfBeam, WatchedModel
from specsim.properties.laws.worker import check_tags, expected_tags
from specsim.properties.reach.conditions import Condition, tags_of
from specsim.properties.reach.counting import reached
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.history import first_divergence
from specsim.simulation.models.batches import DraftStepBatch
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.pools import sizes_for
from specsim.simulation.worker import Worker

OPERATIONS = (
    "align_evict_mask_to_page_size",
    "assign_draft_cache_locs",
    "create_num_accepted_drafts_filter",
    "filter_finished_cache_loc",
    "get_src_tgt_cache_loc",
    "get_target_cache_loc",
    "move_kv_cache",
)
"""What pages change."""

COPIES = ("assign_draft_cache_locs", "move_kv_cache")


def requests_on_pages_keep_what_is_theirs(backend: Backend, scenario: Scenario) -> None:
    """Pages have one owner, committed positions the entries of their tokens in both caches, and outputs lose nothing.

    Every phase is that of the reference, and at the end all pages are free.
    """
    believed = start(believed_worker(scenario), scenario)
    engine = start(own_worker(backend, scenario), scenario, backend)
    for number, (expected, got) in enumerate(play([believed, engine], scenario)):
        engine.scheduler.check_ledger()
        if expected is not None and got is not None and not backend.limits.has_own_drafts:
            divergence = first_divergence(number, believed.worker.phases(), engine.worker.phases())
            require(divergence is None, f"iteration {number}", divergence, "the phases of the reference")
        state = engine.worker.state()
        for request in engine.scheduler.running:
            written = state["req_to_token"][request.row, : len(request.slots)].tolist()
            require(written == request.slots, f"req_to_token[{request.row}]", written, request.slots)
            both = expected_tags(scenario.model, [*request.prompt, *request.output])
            pools = ("target_kv",) if backend.limits.has_own_drafts else ("target_kv", "draft_kv")
            for name, tags in zip(pools, both, strict=False):
                check_tags(name, state[name], request, tags)
    for request in engine.scheduler.finished:
        text = greedy_decode(scenario.model, request.prompt, request.max_new_tokens, request.eos_token)
        require(request.output == text, f"output of request {request.request_id}", request.output, text)
    size, sizes = scenario.page_size, engine.scheduler.sizes
    num_free, everything = engine.scheduler.memory.allocator.num_free, floor_to(sizes.num_slots, size) - size
    require(num_free == everything, "free slots at the end", num_free, everything)


def beams_begin_with_the_end_of_their_text(backend: Backend, scenario: Scenario) -> None:
    """While a tree is drafted, every beam has in front of its entries what the draft cache has of the text's last page.

    Attention that reads whole pages finds it there, as the draft does here: a step that names its slots one by one does
    not look. Without a worker of its own an implementation has what it has for the copies run in the reference's.
    """

    def look(batch: DraftStepBatch[Array], kv: Buffers, pages: Sequence[PageOfBeam]) -> None:
        rows, num_beams = batch.req_pool_indices.tolist(), scenario.config.topk
        for page in pages:
            row, beam = rows[page.place // num_beams], page.place % num_beams
            if row == 0 or page.copies == page.text:
                continue
            reached(Condition.PAGES_OF_BEAMS)
            require(len(page.copies) == len(page.text), f"page of beam {beam} of row {row}", page.copies, page.text)
            for name, layers in kv.items():
                for layer, buffer in enumerate(layers):
                    got, expected = buffer[page.copies].tolist(), buffer[page.text].tolist()
                    require(got == expected, f"{name}[{layer}] in front of beam {beam} of row {row}", got, expected)

    engine = start(_watched_worker(backend, scenario, look), scenario, backend)
    for _ in play([engine], scenario):
        engine.scheduler.check_ledger()


def _watched_worker(backend: Backend, scenario: Scenario, look: Any) -> Worker:
    """Return an implementation's own worker on a model that is watched, or the reference's on its copies."""
    config, size = scenario.config, scenario.page_size
    sizes = sizes_for(config, scenario.requests(), scenario.max_batch, size)
    if backend.own_worker(scenario.is_v1) is not None:
        model = WatchedModel(model_for(backend, scenario.model), size, look)
        own: Worker = backend.build_worker(EAGLE_V1 if scenario.is_v1 else EAGLE_V2, config, model, sizes)
        return own
    has = {name: backend.functions[name] for name in COPIES if backend.has(name)}
    operations = Completed(replace(backend, functions=has), load("specsim.reference"))
    loop = ReferenceWorkerV1 if scenario.is_v1 else ReferenceWorker
    return loop(config, WatchedModel(load_model(scenario.model, operations), size, look), sizes, operations=operations)


PROPERTIES = (
    state_of_runs("worker_pages", requests_on_pages_keep_what_is_theirs, paged_scenarios, OPERATIONS, "P38"),
    state_of_runs(
        "worker_pages",
        beams_begin_with_the_end_of_their_text,
        paged_scenarios,
        COPIES,
        "P42",
        tags=tags_of(Condition.PAGES_OF_BEAMS),
    ),
)
