"""Attention: what a verify forward hands to kernels of three kinds, for trees, and attention itself."""

from specsim.contracts.contract import Contract, Defined, Requirement, ScalarSpec, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import NUM_DRAFT_TOKENS, PAGE_SIZE, REQ_POOL_INDICES, REQ_TO_TOKEN, seq_lens
from specsim.rejection import Reason

_ROWS = (REQ_POOL_INDICES, REQ_TO_TOKEN, seq_lens("position-node"))
_SUM = ScalarSpec("seq_lens_sum", low="0", high="2**31-1")
_QO_INDPTR = array("qo_indptr", "int32 [request+1]", Unit.OFFSET)
_KV_INDPTR = array("kv_indptr", "int32 [request+1]", Unit.OFFSET)
_WINDOW_FITS = Requirement("node <= position", "the verify window lies in the row", Reason.ROW_TOO_SHORT)

OPERATIONS = (
    Operation(
        name="verify_cascade_metadata",
        group="attention",
        summary="Two passes: all nodes over the prefix, then every node alone over the nodes that it sees.",
        contract=Contract(
            parameters=(
                *_ROWS,
                array(
                    "tree_mask",
                    "bool [mask]",
                    Unit.VISIBLE,
                    defined=Defined("length", "node*sum_seq_lens+node*node*request"),
                ),
                NUM_DRAFT_TOKENS,
                ScalarSpec("max_prefix_len", low="0"),
                PAGE_SIZE,
            ),
            outputs=(
                array("cache_seqlens", "int32 [request]", Unit.COUNT),
                array("cu_seqlens_q", "int32 [request+1]", Unit.OFFSET),
                array("page_table", "int32 [request, -(-max_prefix_len//page_size)]", Unit.SLOT),
                array("expand_cache_seqlens", "int32 [request*node]", Unit.COUNT),
                array("expand_page_table", "int32 [request*node, node]", Unit.SLOT),
            ),
            requires=(
                _WINDOW_FITS,
                Requirement(
                    "max_prefix_len <= position", "the page table is read from the request rows", Reason.ROW_TOO_SHORT
                ),
            ),
        ),
        source="semantics B.3",
    ),
    Operation(
        name="verify_custom_mask_metadata",
        group="attention",
        summary="One pass over prefix and window under the full mask, which padded rows extend by visible entries.",
        contract=Contract(
            parameters=(*_ROWS, array("tree_mask", "bool [mask]", Unit.VISIBLE), NUM_DRAFT_TOKENS, _SUM),
            outputs=(
                _QO_INDPTR,
                _KV_INDPTR,
                array(
                    "kv_indices",
                    "int32 [seq_lens_sum+request*node]",
                    Unit.SLOT,
                    defined=Defined("length", "sum_seq_lens+request*node"),
                ),
                array(
                    "custom_mask",
                    "bool [node*seq_lens_sum+node*node*request]",
                    Unit.VISIBLE,
                    defined=Defined("length", "node*sum_seq_lens+node*node*request"),
                ),
            ),
            requires=(_WINDOW_FITS,),
        ),
        source="semantics B.3",
    ),
    Operation(
        name="verify_extend_metadata",
        group="attention",
        summary="Keys of the prefix alone; the window's own keys go through the mask, whose offsets are given.",
        contract=Contract(
            parameters=(*_ROWS, NUM_DRAFT_TOKENS, _SUM),
            outputs=(
                _QO_INDPTR,
                _KV_INDPTR,
                array("kv_indices", "int32 [seq_lens_sum]", Unit.SLOT, defined=Defined("length", "sum_seq_lens")),
                array("mask_indptr", "int64 [request+1]", Unit.OFFSET),
            ),
            requires=(_WINDOW_FITS,),
        ),
        source="semantics B.3",
    ),
    Operation(
        name="idle_attention_metadata",
        group="attention",
        summary="Lengths and page table of dummy rows, one query each: what an idle rank runs its forwards on.",
        contract=Contract(
            parameters=(
                REQ_POOL_INDICES,
                REQ_TO_TOKEN,
                seq_lens("max_seq_len_k-num_new_keys"),
                ScalarSpec("num_new_keys", low="0", high="1"),
                ScalarSpec("max_seq_len_k", low="0"),
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
        source="semantics D.10, sglang #26997",
    ),
    Operation(
        name="tree_attention",
        group="attention",
        summary="Attend from every node to the prefix in pages and, of the window, to the nodes that it sees.",
        contract=Contract(
            parameters=(
                array("q", "bfloat16|float16|float32 [request*node, head, head_dim]", Unit.ACTIVATION),
                *(
                    array(
                        name,
                        "like q [slot, kv_head, head_dim]",
                        Unit.ACTIVATION,
                        defined=Defined("attended", "page_table"),
                    )
                    for name in ("k_buffer", "v_buffer")
                ),
                array(
                    "cache_seqlens",
                    "int32 [request]",
                    Unit.COUNT,
                    within=("node", "page*page_size"),
                    reason=Reason.ROW_TOO_SHORT,
                ),
                array(
                    "page_table",
                    "int32 [request, page]",
                    Unit.SLOT,
                    within=("0", "slot//page_size-1"),
                    defined=Defined("attended", "cache_seqlens"),
                ),
                array("tree_mask", "bool [request*node*node]", Unit.VISIBLE),
                array("softmax_scale", "float32 [1]", Unit.ACTIVATION, optional=True),
                NUM_DRAFT_TOKENS,
                PAGE_SIZE,
            ),
            outputs=(
                array("attention", "like q [request*node, head, head_dim]", Unit.ACTIVATION),
                array("log_sum_exp", "float32 [request*node, head]", Unit.ACTIVATION),
            ),
            requires=(
                Requirement("kv_head >= 1", "a query head reads keys"),
                Requirement("head_dim >= 1", "a score is a product of vectors"),
                Requirement("head % kv_head == 0", "every KV head serves as many query heads", Reason.NOT_DIVISIBLE),
            ),
        ),
        source="semantics B.3b",
    ),
)
