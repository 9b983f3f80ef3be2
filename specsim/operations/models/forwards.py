"""Model: forwards over tagged KV. A wrong slot, position, mask or stale entry changes what they return."""

from specsim.contracts.contract import Contract, Defined, Requirement, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import HAS_CONTEXT_WORD, HIDDEN_STATES, PAGE_SIZE
from specsim.rejection import Reason

_KV_BUFFERS = array("kv_buffers", "int64 [slot, 4]", Unit.TAG, each="2*layer", defined=Defined("live"))
_INPUT_IDS = array("input_ids", "int64 [token]", Unit.TOKEN, within=("0", None))
_POSITIONS = array("positions", "int64 [token]", Unit.POSITION, within=("0", None))
_OUT_CACHE_LOC = array("out_cache_loc", "int64 [token]", Unit.SLOT, within=("0", "slot-1"))
_PAGE_TABLE = array("page_table", "int32 [request, page]", Unit.SLOT)
_CACHE_SEQLENS = array("cache_seqlens", "int32 [request]", Unit.COUNT, within=("0", "page*page_size"))
_CU_SEQLENS_Q = array("cu_seqlens_q", "int32 [request+1]", Unit.OFFSET, within=("0", "token"))
_NEXT_HIDDEN = array("next_hidden_states", "int64 [token, hidden]", Unit.TAG)
_OWNED = Defined("owned", "out_cache_loc")
_CONTEXT = array("context", "int64 [token]", Unit.TAG, defined=_OWNED)
_HAS_LAYER = Requirement("layer >= 1", "a forward needs at least one layer")


OPERATIONS = (
    Operation(
        name="target_forward",
        group="forwards",
        summary="Write the target KV of the new tokens, then fold what each of them may see into its hidden state.",
        contract=Contract(
            parameters=(
                _KV_BUFFERS,
                _INPUT_IDS,
                _POSITIONS,
                _OUT_CACHE_LOC,
                _PAGE_TABLE,
                _CACHE_SEQLENS,
                _CU_SEQLENS_Q,
                array("tree_mask", "bool [visibility]", Unit.VISIBLE, optional=True),
                PAGE_SIZE,
            ),
            outputs=(array("hidden_states", "int64 [token, layer+1]", Unit.TAG, defined=_OWNED),),
            requires=(
                _HAS_LAYER,
                Requirement(
                    "visibility*request == token*token", "a tree mask has one square a request", Reason.WRONG_SHAPE
                ),
            ),
            writes=("kv_buffers",),
        ),
        source="semantics, tagged KV",
    ),
    Operation(
        name="draft_extend_forward",
        group="forwards",
        summary="The draft model over several new tokens a request, causal.",
        contract=Contract(
            parameters=(
                _KV_BUFFERS,
                _INPUT_IDS,
                HIDDEN_STATES,
                _POSITIONS,
                _OUT_CACHE_LOC,
                _PAGE_TABLE,
                _CACHE_SEQLENS,
                _CU_SEQLENS_Q,
                PAGE_SIZE,
            ),
            outputs=(_NEXT_HIDDEN, _CONTEXT),
            requires=(_HAS_LAYER, HAS_CONTEXT_WORD),
            writes=("kv_buffers",),
        ),
        source="semantics D.6, tagged KV",
    ),
    Operation(
        name="draft_decode_forward",
        group="forwards",
        summary="The draft model over one new token a beam, each beam with its own list of slots.",
        contract=Contract(
            parameters=(
                _KV_BUFFERS,
                _INPUT_IDS,
                HIDDEN_STATES,
                _POSITIONS,
                _OUT_CACHE_LOC,
                array(
                    "kv_indices",
                    "int32 [index]",
                    Unit.SLOT,
                    within=("0", "slot-1"),
                    defined=Defined("rows", "kv_indptr"),
                ),
                array("kv_indptr", "int32 [token+1]", Unit.OFFSET, within=("0", "index")),
            ),
            outputs=(_NEXT_HIDDEN, _CONTEXT),
            requires=(_HAS_LAYER, HAS_CONTEXT_WORD),
            writes=("kv_buffers",),
        ),
        source="semantics A.4, tagged KV",
    ),
)
