"""Faults in what a verify keeps and gives back where a page holds several slots."""

from collections.abc import Callable

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, mutants_by_operation, with_arguments

_KEPT_END = "length + num_kept - 1"
_KEEP_LEN = "min(ceil_to(needed, page_size), length + num_nodes)"
_DRAFTS = "num_accepted_drafts[request]"
_TOKENS = f"count_tokens(int({_DRAFTS}))"
_GO_ON = "num_unfinished_tokens[request]"


def _freed(places: str) -> Callable[[Function], Function]:
    return edited("range(num_nodes - int(to_free_num_slots[request]), num_nodes)", f"range({places})")


_one_by_one = edited(f"floor_to({_KEPT_END}, page_size) - length", "num_nodes")
_page_of_the_bonus = edited(_KEPT_END, "length + num_kept")
_root_not_counted = edited(_KEPT_END, "length + max(num_kept - 2, 0)")
_from_the_window = edited(f"floor_to({_KEPT_END}, page_size) - length", "floor_to(num_kept - 1, page_size)")
_wrapped = edited("max(start, 0)", "start", "first + node", "first + node % num_nodes")
_past_the_window = edited("min(start + page_size, num_nodes)", "min(start + page_size, len(evict_mask) - first)")
_by_the_last_one_kept = edited(
    "num_nodes - int(evict_mask[first : first + num_nodes].sum())",
    "1 + int(np.flatnonzero(~evict_mask[first : first + num_nodes])[-1])",
)
_as_a_chain = edited(
    "for node in range(max(start, 0), min(start + page_size, num_nodes)):\n    evict_mask[first + node] = False",
    "evict_mask[first : first + num_nodes] = length + np.arange(num_nodes) >= ceil_to(length + num_kept, page_size)",
)
_page_that_begins_freed = edited("ceil_to(needed, page_size)", "max(ceil_to(needed - 1, page_size), length + 1)")
_pages_of_the_window = edited(_KEEP_LEN, "length + min(ceil_to(needed - length, page_size), num_nodes)")
_next_page_kept = edited("ceil_to(needed, page_size)", "floor_to(needed, page_size) + page_size")
_one_target_early = edited("target_slots[num_kept]", "target_slots[num_accepted_drafts[:request].sum() + place]")
_after_the_accepted = _freed("place + 1, place + 1 + int(to_free_num_slots[request])")
_last_ones_kept = edited(
    "target_slots[num_kept] = window[place]",
    f"target_slots[num_kept] = window[place - int(to_free_num_slots[request]) - {_TOKENS}]",
)
_no_length_grows = edited('range(axes["request"])', 'range(axes["request"] if len(unfinished_index) else 0)')
_lengths_by_drafts = edited(f"seq_lens[request] += count_tokens({_DRAFTS})", f"seq_lens[request] += {_DRAFTS}")
_drafts_counted = edited(f"{_GO_ON} = count_tokens({_DRAFTS})", f"{_GO_ON} = {_DRAFTS}")
_first_ones_go_on = with_arguments(unfinished_index=lambda places: np.arange(len(places)))
_ended_kept_too = edited("num_unfinished_tokens[request]", f"min({_TOKENS}, len(out_cache_loc) - used)")
_less_than_nothing = edited(_KEEP_LEN, "ceil_to(needed, page_size)")
_first_tree = edited("out_cache_loc[node]", "out_cache_loc[node % num_nodes]")
_those_that_go_on = edited('range(axes["request"])', "unfinished_index")
_bonus_left_out = edited(_TOKENS, "num_accepted_drafts[request]")

MUTANTS = mutants_by_operation(
    align_evict_mask_to_page_size=(
        ("OWN-700", "Slots are freed one by one, pages in use among them.", _one_by_one),
        ("OWN-701", "The page of the bonus token is kept, which has no slot yet.", _page_of_the_bonus),
        ("OWN-702", "The root is not counted, so the page of the draft before the last is kept.", _root_not_counted),
        ("OWN-703", "Pages are counted from the start of the verify window.", _from_the_window),
        ("OWN-704", "A page that begins before the window wraps to its end.", _wrapped),
        ("OWN-705", "A page that ends after the window keeps slots of the next request.", _past_the_window),
        ("OWN-3141", "The last kept entry decides, not how many are kept.", _by_the_last_one_kept),
        ("OWN-3142", "What is kept is taken to be in front.", _as_a_chain),
    ),
    get_src_tgt_cache_loc=(
        ("OWN-714", "The page of the last accepted token is freed when it begins one.", _page_that_begins_freed),
        ("OWN-715", "Everything after the accepted tokens is freed, on pages in use too.", edited(_KEEP_LEN, "needed")),
        ("OWN-716", "Pages are counted from the start of the verify window.", _pages_of_the_window),
        ("OWN-717", "A page that ends after the window frees less than nothing.", _less_than_nothing),
        ("OWN-718", "A page that is full keeps the next one.", _next_page_kept),
        ("OWN-719", "Every path is looked up in the first tree.", _first_tree),
    ),
    get_target_cache_loc=(
        ("OWN-720", "Targets start one draft, not one token, after those before.", _one_target_early),
        ("OWN-721", "What is freed follows the accepted slots, where it should end the window.", _after_the_accepted),
        ("OWN-722", "Targets are the last slots that are kept.", _last_ones_kept),
        ("OWN-723", "Slots are freed from the front.", _freed("int(to_free_num_slots[request])")),
    ),
    create_num_accepted_drafts_filter=(
        ("OWN-706", "Lengths of ended requests stay, so that their last slots are never freed.", _those_that_go_on),
        ("OWN-707", "Without a request that goes on, no length grows.", _no_length_grows),
        ("OWN-708", "Lengths grow by drafts, not by tokens.", _lengths_by_drafts),
        ("OWN-709", "Drafts are counted, not tokens.", _drafts_counted),
        ("OWN-710", "The first requests go on, as many as do.", _first_ones_go_on),
    ),
    filter_finished_cache_loc=(
        ("OWN-711", "Segments are as long as drafts, the bonus token left out.", _bonus_left_out),
        ("OWN-712", "Segments are those of the filtered list.", edited(_TOKENS, "num_unfinished_tokens[request]")),
        ("OWN-713", "A request that has ended keeps its slots too.", _ended_kept_too),
    ),
)
