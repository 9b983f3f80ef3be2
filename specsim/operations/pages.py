"""Pages: what V1 gives back after a verify where a page holds several slots."""

from dataclasses import replace

from specsim.config import MOST_NODES
from specsim.contracts.contract import Contract, ScalarSpec, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import MOST_POSITIONS, NUM_DRAFT_TOKENS, OUT_CACHE_LOC, PAGE_SIZE, seq_lens

_PAGE_SIZE = replace(PAGE_SIZE, default=None)
_DRAFTS = array("num_accepted_drafts", "int32 [request]", Unit.COUNT, within=("0", "node-1"))

OPERATIONS = (
    Operation(
        name="align_evict_mask_to_page_size",
        group="pages",
        summary="Keep every slot on the page that the kept ones reach, so that whole pages are freed.",
        contract=Contract(
            parameters=(
                seq_lens(),
                array("evict_mask", "bool [request*node]", Unit.VISIBLE),
                NUM_DRAFT_TOKENS,
                _PAGE_SIZE,
            ),
            writes=("evict_mask",),
        ),
        source="semantics C.7",
    ),
    Operation(
        name="get_src_tgt_cache_loc",
        group="pages",
        summary="List the slots of accepted nodes, and count the slots after the last page that they need.",
        contract=Contract(
            parameters=(
                seq_lens(),
                OUT_CACHE_LOC,
                array("accept_indices", "int32 [token]", Unit.NODE, within=("0", "request*node-1")),
                _DRAFTS,
                NUM_DRAFT_TOKENS,
                _PAGE_SIZE,
            ),
            outputs=(
                array("source_slots", "int64 [token]", Unit.SLOT),
                array("to_free_num_slots", "int32 [request]", Unit.COUNT),
            ),
        ),
        source="semantics C.7",
    ),
    Operation(
        name="get_target_cache_loc",
        group="pages",
        summary="List the slots at the front of each verify window, where accepted nodes go, and those that are freed.",
        contract=Contract(
            parameters=(
                _DRAFTS,
                array("to_free_num_slots", "int32 [request]", Unit.COUNT, within=("0", "node")),
                OUT_CACHE_LOC,
                NUM_DRAFT_TOKENS,
                ScalarSpec("num_target_slots", axis="token", low="0"),
                ScalarSpec("num_to_free_slots", axis="location", low="0"),
            ),
            outputs=(
                array("target_slots", "int64 [token]", Unit.SLOT),
                array("to_free_slots", "int64 [location]", Unit.SLOT),
            ),
        ),
        source="semantics C.7",
    ),
    Operation(
        name="create_num_accepted_drafts_filter",
        group="pages",
        summary="Advance every length by its accepted tokens, and count them once more for unfinished requests alone.",
        contract=Contract(
            parameters=(
                array("num_accepted_drafts", "int32 [request]", Unit.COUNT, within=("0", str(MOST_NODES - 1))),
                array("unfinished_index", "int64 [unfinished]", Unit.ANY, within=("0", "request-1")),
                array(
                    "seq_lens",
                    "int64|int32 [request]",
                    Unit.COUNT,
                    within=("0", f"{MOST_POSITIONS}-{MOST_NODES}"),
                ),
            ),
            outputs=(array("num_unfinished_tokens", "int32 [request]", Unit.COUNT),),
            writes=("seq_lens",),
        ),
        source="semantics C.7",
    ),
    Operation(
        name="filter_finished_cache_loc",
        group="pages",
        summary="Keep the slots of unfinished requests in a list that is cut by accepted tokens.",
        contract=Contract(
            parameters=(
                array("target_slots", "int64 [token]", Unit.SLOT, within=("0", None)),
                array("num_accepted_drafts", "int32 [request]", Unit.COUNT, within=("0", "token-1")),
                array("num_unfinished_tokens", "int32 [request]", Unit.COUNT, within=("0", "token")),
                ScalarSpec("num_locations", axis="location", low="0"),
            ),
            outputs=(array("out_cache_loc", "int64 [location]", Unit.SLOT),),
        ),
        source="semantics C.7",
    ),
)
