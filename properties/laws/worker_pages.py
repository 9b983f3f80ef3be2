"""Laws of whole runs on pages: nothing is lost, nothing leaks, and every beam finds the end of its text."""

from dataclasses import replace

from specsim.conformance.arrays import Array
from specsim.conformance.backend import Backend, load
from specsim.conformance.completed import Completed
from specsim.counts import beam_stride, floor_to
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.histories import (
    Scenario,
    believed_worker,
    own_worker,
    paged_scenarios,
    play,
    start,
)
from specsim.properties.laws.support.watched import Buffers, WatchedModel
from specsim.properties.laws.worker import check_tags, expected_tags
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.history import first_divergence
from specsim.simulation.models.batches import DraftStepBatch
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.pools import sizes_for

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

    Attention that reads whole pages finds it there; a step that names its slots one by one does not look. The
    reference's loop and models run on what the implementation has for the copies.
    """
    config, size = scenario.config, scenario.page_size

    def look(batch: DraftStepBatch[Array], kv: Buffers) -> None:
        for place, row in enumerate(batch.req_pool_indices.tolist()):
            length = int(batch.positions[place * config.topk]) - (batch.depth - 2)
            slots, base = worker.state()["req_to_token"][row], floor_to(length, size)
            stride = beam_stride(length, config.topk, config.num_steps, size)
            for beam in range(1, config.topk):
                first = base + beam * stride
                holes, text = slots[first : first + length - base], slots[base:length]
                for name, layers in kv.items():
                    for layer, buffer in enumerate(layers):
                        got, expected = buffer[holes].tolist(), buffer[text].tolist()
                        where = f"{name}[{layer}] in front of beam {beam} of row {row}"
                        require(got == expected, where, got, expected)

    has = {name: backend.functions[name] for name in COPIES if backend.has(name)}
    operations = Completed(replace(backend, functions=has), load("specsim.reference"))
    model = WatchedModel(load_model(scenario.model, operations), look)
    loop = ReferenceWorkerV1 if scenario.is_v1 else ReferenceWorker
    sizes = sizes_for(config, scenario.requests(), scenario.max_batch, size)
    worker = loop(config, model, sizes, operations=operations)
    engine = start(worker, scenario, backend)
    for _ in play([engine], scenario):
        engine.scheduler.check_ledger()


PROPERTIES = (
    state_of_runs("worker_pages", requests_on_pages_keep_what_is_theirs, paged_scenarios, OPERATIONS, "P38"),
    state_of_runs("worker_pages", beams_begin_with_the_end_of_their_text, paged_scenarios, COPIES, "P42", plays=()),
)
