"""Arguments that several operations take in the same form."""

from specsim.config import MOST_NODES
from specsim.contracts.contract import ArraySpec, Defined, Requirement, ScalarSpec, Unit, array
from specsim.rejection import Reason

REQ_POOL_INDICES = array("req_pool_indices", "int64 [request]", Unit.ROW, within=("0", "row-1"))
REQ_TO_TOKEN = array("req_to_token", "int32 [row, position]", Unit.SLOT)
ACCEPT_INDEX = array("accept_index", "int32 [request, draft+1]", Unit.NODE, within=("0", "request*node-1"), sentinel=-1)
OUT_CACHE_LOC = array("out_cache_loc", "int64 [request*node]", Unit.SLOT, within=("0", None))
TOPK = ScalarSpec("topk", axis="topk", low="1", high=str(MOST_NODES))
NUM_STEPS = ScalarSpec("num_steps", axis="step", low="1", high=str(MOST_NODES))
NUM_DRAFT_TOKENS = ScalarSpec("num_draft_tokens", axis="node", low="1", high=str(MOST_NODES))
PAGE_SIZE = ScalarSpec("page_size", low="1", default=1, high="2**31-1")
NUM_CANDIDATES = "topk+(step-1)*topk*topk"
PARENT_WIDTH = "topk*(step-1)+1 if step > 1 else 0"


MOST_POSITIONS = "2**31-1"
"""Attention metadata counts positions in int32; sums of such lengths and of depths never overflow 64 bits."""


def seq_lens(longest: str = MOST_POSITIONS) -> ArraySpec:
    """Return committed lengths, at most ``longest``: a longer one does not fit the row that it is read in."""
    return array("seq_lens", "int64|int32 [request]", Unit.COUNT, within=("0", longest), reason=Reason.ROW_TOO_SHORT)


def links(name: str) -> ArraySpec:
    """Return an array of child or sibling links."""
    return array(name, "int64 [request, node]", Unit.NODE, within=("0", "node-1"), sentinel=-1)


RETRIEVE_INDEX = array("retrieve_index", "int64 [request, node]", Unit.NODE, within=("0", "request*node-1"))
RETRIEVE_NEXT_TOKEN = links("retrieve_next_token")
RETRIEVE_NEXT_SIBLING = links("retrieve_next_sibling")
POSITIONS = array("positions", "int64 [request*node]", Unit.POSITION)
PREDICT = array(
    "predict", "int32 [request*node]", Unit.TOKEN, within=("0", None), defined=Defined("at", "accept_index")
)
NUM_ACCEPTED_DRAFTS = array("num_accepted_drafts", "int32 [request]", Unit.COUNT)
VERIFY_DEPTH = ScalarSpec("num_steps", axis="draft", low="0", high=str(MOST_NODES))
FLOAT_LOGITS = array("logits", "float32|bfloat16 [request*node, vocab]", Unit.LOGIT)
TREE_COINS = array("uniform_samples", "float32 [request, node]", Unit.COIN, within=("0", "1"))
FINAL_COINS = array("uniform_samples_for_final_sampling", "float32 [request]", Unit.COIN, within=("0", "1"))

CU_NUM_DRAFTS = array("cu_num_drafts", "int32 [request+1]", Unit.OFFSET)
CHAINS = (
    array("draft_tokens", "int64 [drafted]", Unit.TOKEN, within=("0", "vocab-1"), sentinel=-1),
    CU_NUM_DRAFTS,
    array("uniform_samples", "float32 [drafted]", Unit.COIN, within=("0", "1")),
    FINAL_COINS,
)
"""Ragged chains: their drafts one after another, where each request's start, a coin a draft, and the last coins."""

MAX_NUM_DRAFTS = ScalarSpec("max_num_drafts", axis="draft", low="0", high=str(MOST_NODES))
CHAIN_OUTPUTS = (
    array("output_tokens", "int32 [request, draft+1]", Unit.TOKEN, within=("0", "vocab-1"), sentinel=-1),
    NUM_ACCEPTED_DRAFTS,
)


def filters(optional: bool = False) -> tuple[ArraySpec, ...]:
    """Return the sampling parameters of each request; ``optional`` filters may be left out, the temperature may not."""
    return (
        array("temperature", "float32 [request]", Unit.TEMPERATURE, within=("0", None)),
        array("top_k", "int32 [request]", Unit.COUNT, within=("1", None), optional=optional),
        array("top_p", "float32 [request]", Unit.PROBABILITY, within=("0", "1"), optional=optional),
        array("min_p", "float32 [request]", Unit.PROBABILITY, within=("0", "1"), optional=optional),
    )


def thresholds() -> tuple[ArraySpec, ...]:
    """Return the two acceptance thresholds of each request; 1 and 1 are lossless."""
    return tuple(
        array(name, "float32 [request]", Unit.PROBABILITY, within=("0", "1"), neutral=1)
        for name in ("threshold_single", "threshold_acc")
    )


HIDDEN_STATES = array("hidden_states", "int64 [token, hidden]", Unit.TAG, within=("0", "2**32-1"))
HAS_CONTEXT_WORD = Requirement(
    "hidden >= 2", "a hidden state is one word a layer and the context word", Reason.WRONG_SHAPE
)
