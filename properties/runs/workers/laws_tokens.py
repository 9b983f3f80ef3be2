"""Laws of whole runs: what is output, what is accepted, and who owns which slot."""

from collections.abc import Mapping
from typing import Any

from specsim.conformance.backend import EAGLE_V2, Backend
from specsim.counts import floor_to
from specsim.properties.laws.checks import require, states_of_runs
from specsim.properties.runs.histories import scenarios
from specsim.properties.runs.play import Play
from specsim.properties.runs.scenario import Scenario
from specsim.simulation.engine import Engine
from specsim.simulation.requests import Request

SPINE = (
    *("fast_topk", "select_top_k_tokens", "organize_draft_results", "organize_chain_draft_results"),
    *("assign_draft_cache_locs", "per_step_draft_out_cache_loc", "generate_draft_decode_kv_indices"),
    *("build_tree", "target_verify_metadata", "argmax_target_predict", "verify_tree_greedy"),
    *("gather_accept_tokens", "fill_bonus_tokens", "fill_accept_out_cache_loc", "fill_accept_target_cache_loc"),
    *("compact_accepted_to_front", "move_kv_cache", "assign_req_to_token_pool", "assign_extend_cache_locs"),
    *("rotate_prefill_input_ids", "prepare_for_extend_to_fill_draft_kvcache"),
    *("target_forward", "draft_extend_forward", "draft_decode_forward"),
    *("hash_target_logits", "hash_draft_probabilities"),
)
"""What greedy runs of the V2 worker on the hash model call; a reduced draft vocabulary calls for one more."""


def output_equals_autoregressive_decoding(backend: Backend, scenario: Scenario) -> None:
    """Speculation changes no output token, whatever the draft, the tree and the schedule."""
    Play(scenario, backend).run().require_outputs()


def acceptance_is_what_the_draft_promises(backend: Backend, scenario: Scenario) -> None:
    """A perfect draft is accepted whole, a hostile one not at all, one that is right to depth j exactly to depth j."""
    model, num_steps = scenario.model, scenario.config.num_steps
    if model.hot_token_id is not None:
        return
    for iteration in Play(scenario, backend).iterations():
        for count in iteration.num_accepted_drafts.tolist():
            if model.num_right is not None:
                expected = min(model.num_right, num_steps)
                require(count == expected, "num_accepted_drafts", count, expected)
            elif model.agreement == 1.0:
                require(count == num_steps, "num_accepted_drafts", count, num_steps)


def counts_are_drafts_and_drafts_plus_bonus(backend: Backend, scenario: Scenario) -> None:
    """Both counts travel together: tokens are drafts and one bonus, at most one path long."""
    for iteration in Play(scenario, backend).iterations():
        drafts, tokens = iteration.num_accepted_drafts.tolist(), iteration.num_accepted_tokens.tolist()
        expected = [count + 1 for count in drafts]
        require(tokens == expected, "num_accepted_tokens", tokens, expected)
        most = scenario.config.num_steps
        require(all(0 <= count <= most for count in drafts), "num_accepted_drafts", drafts, f"0 to {most}")
        for request, count in zip(iteration.tokens.tolist(), tokens, strict=True):
            outside = [token for token in request[:count] if not 0 <= token < scenario.model.vocab_size]
            require(not outside, "output tokens", outside, f"below {scenario.model.vocab_size}")


def check_map(state: Mapping[str, Any], request: Request) -> None:
    """Raise AssertionError unless the map says of every position of a request where it lies."""
    written = state["req_to_token"][request.row, : len(request.slots)].tolist()
    require(written == list(request.slots), f"req_to_token[{request.row}]", written, request.slots)


def require_all_free(engine: Engine) -> None:
    """Raise AssertionError unless every slot but those of the dump is free, or is the prefix cache's."""
    memory, sizes = engine.scheduler.memory, engine.scheduler.sizes
    free = memory.allocator.num_free + (0 if memory.cache is None else memory.cache.num_cached)
    everything = floor_to(sizes.num_slots, sizes.page_size) - sizes.page_size
    require(free == everything, "free and cached slots at the end", free, everything)


def slots_have_one_owner(backend: Backend, scenario: Scenario) -> None:
    """After every step each slot is free, the dump, or one request's; at the end all are free."""
    play = Play(scenario, backend)
    engine = play.engine
    for _ in play.turns(checks_ledger=True):
        state = engine.worker.state()
        for request in engine.scheduler.running:
            check_map(state, request)
        require(not state["req_to_token"][0].any(), "req_to_token[0]", "written", "the padding row")
    require_all_free(engine)


def request_does_not_depend_on_its_neighbours(backend: Backend, scenario: Scenario) -> None:
    """Output and counters of each request are those of the request alone."""
    for number, got in enumerate(Play(scenario, backend).run().requests):
        lonely = scenario.alone(number).having(shuffle_seed=scenario.room.shuffle_seed + 1)
        (expected,) = Play(lonely, backend).run().requests
        # NOTE: a drafter that learns from other requests accepts more beside them.
        for field in ("output",) if backend.limits.has_own_drafts else ("output", "counters"):
            one, other = vars(got)[field], vars(expected)[field]
            require(one == other, f"{field} of request {number}", one, f"{other} as alone")


PROPERTIES = states_of_runs(
    "engine",
    (output_equals_autoregressive_decoding, scenarios, SPINE, "P01"),
    (acceptance_is_what_the_draft_promises, scenarios, SPINE, "P06"),
    (counts_are_drafts_and_drafts_plus_bonus, scenarios, SPINE, "P25"),
    (slots_have_one_owner, scenarios, SPINE, "P38"),
    (request_does_not_depend_on_its_neighbours, scenarios, SPINE, "P31"),
    plays=(EAGLE_V2,),
)
