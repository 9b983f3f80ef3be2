"""Scheduled verification: how many drafts of each request are verified, and the ragged forward that follows."""

from dataclasses import replace

from specsim.contracts.contract import Contract, Defined, Requirement, ScalarSpec, Unit, array, flag
from specsim.operations.record import Operation
from specsim.operations.shared import (
    MOST_POSITIONS,
    NUM_DRAFT_TOKENS,
    PAGE_SIZE,
    REQ_POOL_INDICES,
    REQ_TO_TOKEN,
    seq_lens,
)
from specsim.rejection import Reason

_VERIFY_LENS = array("verify_lens", "int32 [request]", Unit.COUNT, within=("1", "node"))
_PADDED_LENS = replace(_VERIFY_LENS, low="0")
_CANDIDATES = array("candidates", "int64 [request, node]", Unit.TOKEN, within=("0", None), sentinel=-1)
_MOST_ROWS = "2**20"
"""Rows, and requests, of a captured graph at most."""

_NUM_TOKENS = ScalarSpec("num_tokens", axis="token", low="0", high=_MOST_ROWS)
_LONGEST = ScalarSpec("max_verify_len", low="1", high="2**31-1")
_ROOT = Requirement("node >= 1", "a chain has a root")

OPERATIONS = (
    Operation(
        name="schedule_verify_lens",
        group="scheduled",
        summary="Admit the drafts that most probably survive, of all requests together, within a budget.",
        contract=Contract(
            parameters=(
                array("confidence", "float32 [request, draft]", Unit.PROBABILITY, within=("0", "1")),
                array("num_drafts", "int32 [request]", Unit.COUNT, within=("0", "draft"), optional=True),
                array("survival_eps", "float32 [1]", Unit.PROBABILITY, within=("0", None), optional=True),
                ScalarSpec("verify_token_budget", low="0", high="2**31-1"),
                replace(_LONGEST, high="draft+1"),
                ScalarSpec("min_verify_len", low="0", high="max_verify_len", default=1),
            ),
            outputs=(array("verify_lens", "int32 [request]", Unit.COUNT),),
        ),
        source="semantics Q.1.3",
    ),
    Operation(
        name="ragged_verify_window",
        group="scheduled",
        summary="Tokens, positions and slots of the rows that are verified, one request after another, then padding.",
        contract=Contract(
            parameters=(
                _CANDIDATES,
                _VERIFY_LENS,
                REQ_POOL_INDICES,
                REQ_TO_TOKEN,
                seq_lens(),
                _NUM_TOKENS,
            ),
            outputs=(
                array("qo_indptr", "int32 [request+1]", Unit.OFFSET),
                array("input_ids", "int64 [token]", Unit.TOKEN),
                array("positions", "int64 [token]", Unit.POSITION),
                array("out_cache_loc", "int64 [token]", Unit.SLOT),
                array("window_index", "int64 [token]", Unit.NODE, within=("0", "request*node-1"), sentinel=-1),
            ),
            requires=(_ROOT,),
        ),
        source="semantics Q.1.6",
    ),
    Operation(
        name="pad_verify_lens_to_bucket",
        group="scheduled",
        summary="Give the rows that a captured graph has left to its padding requests, or else to the last request.",
        contract=Contract(
            parameters=(
                array("verify_lens", "int32 [request]", Unit.COUNT, within=("1", None)),
                ScalarSpec("num_padded_requests", axis="padded_request", low="0", high=_MOST_ROWS),
                replace(_NUM_TOKENS, axis=None),
                replace(_LONGEST, default=2**31 - 1),
            ),
            outputs=(array("padded_verify_lens", "int32 [padded_request]", Unit.COUNT),),
            requires=(
                Requirement("padded_request >= request", "the bucket holds the batch"),
                Requirement("padded_request > 0 or num_tokens == 0", "rows belong to a request"),
            ),
        ),
        source="semantics Q.1.8",
    ),
    Operation(
        name="scatter_compact_to_strided",
        group="scheduled",
        summary="Bring the verified rows of each request to its block of a whole tree's rows; the rest is 0.",
        contract=Contract(
            parameters=(
                array("values", "any [token, ...]", Unit.ANY, defined=Defined("length", "sum_verify_lens")),
                _PADDED_LENS,
                NUM_DRAFT_TOKENS,
            ),
            outputs=(array("strided", "like values [request*node, ...]", Unit.ANY),),
        ),
        source="semantics Q.1.6",
    ),
    Operation(
        name="ragged_verify_metadata",
        group="scheduled",
        summary="Lengths and page table of a verify forward in which every request has as many rows as are verified.",
        contract=Contract(
            parameters=(
                REQ_POOL_INDICES,
                REQ_TO_TOKEN,
                seq_lens("max_seq_len_k"),
                array("verify_lens", "int32 [request]", Unit.COUNT, within=("0", "max_seq_len_k")),
                ScalarSpec("max_seq_len_k", low="0", high=MOST_POSITIONS),
                PAGE_SIZE,
            ),
            outputs=(
                array("cache_seqlens", "int32 [request]", Unit.COUNT),
                array("cu_seqlens_q", "int32 [request+1]", Unit.OFFSET),
                array("cu_seqlens_k", "int32 [request+1]", Unit.OFFSET),
                array("page_table", "int32 [request, -(-max_seq_len_k//page_size)]", Unit.SLOT),
            ),
            requires=(
                Requirement(
                    "max_seq_len_k <= position", "the page table is read from the request rows", Reason.ROW_TOO_SHORT
                ),
            ),
        ),
        source="semantics Q.1.8",
    ),
    Operation(
        name="cap_accepted_drafts",
        group="scheduled",
        summary="Cut an acceptance over all drafts to those that were scheduled, and name the token at the cut.",
        contract=Contract(
            parameters=(
                _CANDIDATES,
                array("num_accepted_drafts", "int32 [request]", Unit.COUNT, within=("0", "node-1")),
                array("bonus_tokens", "int32|int64 [request]", Unit.TOKEN),
                _VERIFY_LENS,
                flag("is_compact", False),
            ),
            outputs=(
                array("num_kept_drafts", "int32 [request]", Unit.COUNT),
                array("cut_tokens", "int64 [request]", Unit.TOKEN),
                array("cap_trim_lens", "int32 [request]", Unit.COUNT),
            ),
            requires=(_ROOT,),
        ),
        source="semantics Q.1.7",
    ),
    Operation(
        name="commit_inject_layout",
        group="scheduled",
        summary="Slots and positions where the committed rows of a verify enter the draft cache; other rows have -1.",
        contract=Contract(
            parameters=(
                REQ_POOL_INDICES,
                REQ_TO_TOKEN,
                seq_lens(),
                array("commit_lens", "int32 [request]", Unit.COUNT, within=("0", "node")),
                replace(_PADDED_LENS, optional=True),
                array(
                    "slot_map",
                    "int32|int64 [slot]",
                    Unit.SLOT,
                    within=("0", "2**31-1"),
                    optional=True,
                ),
                NUM_DRAFT_TOKENS,
                ScalarSpec("ring_size", low="0", high="2**31-1", default=0),
            ),
            outputs=(
                array("inject_loc", "int32 [request*node]", Unit.SLOT, sentinel=-1),
                array("positions", "int64 [request*node]", Unit.POSITION),
            ),
            requires=(Requirement("row*ring_size < 2**31", "places of the rings are counted in int32"),),
        ),
        source="semantics Q.1.9",
    ),
)
