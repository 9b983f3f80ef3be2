"""What follows the output of a request: tokens that are forbidden after a node, and what was output so far."""

from specsim.contracts.contract import Contract, Defined, Requirement, ScalarSpec, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import ACCEPT_INDEX, NUM_DRAFT_TOKENS, REQ_POOL_INDICES

_LONGEST = "2**30"
"""With the drafts of a path added, a length is an int32."""

_COUNTABLE = ("0", "2**24-1025")
"""One more occurrence for every node of a path, and a count is still exact in float32."""

_VOCAB_SIZE = ScalarSpec("vocab_size", axis="vocab", low="1", high="2**31-1")

OPERATIONS = (
    Operation(
        name="forbid_tokens",
        group="following",
        summary="Pack the tokens that may follow each node: no stop before its time, and no end of a bad word.",
        contract=Contract(
            parameters=(
                array("draft_token", "int64 [request*node]", Unit.TOKEN, within=("0", "vocab-1")),
                array("tree_mask", "bool [request*node*node]", Unit.VISIBLE),
                array("num_output_tokens", "int32 [request]", Unit.COUNT, within=("0", _LONGEST)),
                array("min_tokens", "int32 [request]", Unit.COUNT, within=("0", _LONGEST)),
                array("stop_mask", "int32 [request, -(-vocab//32)]", Unit.BITS),
                array("recent_tokens", "int64 [request, recent]", Unit.TOKEN, within=("0", "vocab-1"), sentinel=-1),
                array("bad_words", "int64 [request, word, recent+1]", Unit.TOKEN, within=("0", "vocab-1"), sentinel=-1),
                NUM_DRAFT_TOKENS,
                _VOCAB_SIZE,
            ),
            outputs=(array("vocab_mask", "int32 [request*node, -(-vocab//32)]", Unit.BITS),),
            requires=(Requirement("word >= 1", "a request without bad words has one that forbids nothing"),),
        ),
        source="semantics B.4b",
    ),
    Operation(
        name="commit_output_tokens",
        group="following",
        summary="Add the tokens that a verify committed to what each request's row knows of its output.",
        contract=Contract(
            parameters=(
                REQ_POOL_INDICES,
                array("token_counts", "int32 [row, vocab]", Unit.COUNT, within=_COUNTABLE),
                array("num_output_tokens", "int32 [row]", Unit.COUNT, within=("0", _LONGEST)),
                array("recent_tokens", "int64 [row, recent]", Unit.TOKEN, within=("0", "vocab-1"), sentinel=-1),
                ACCEPT_INDEX,
                array(
                    "predict",
                    "int32 [request*node]",
                    Unit.TOKEN,
                    within=("0", "vocab-1"),
                    defined=Defined("at", "accept_index"),
                ),
                array("counts_all", "bool [request]", Unit.ANY),
            ),
            writes=("token_counts", "num_output_tokens", "recent_tokens"),
            requires=(
                Requirement("draft+1 <= node or request == 0", "an accepted path has no more nodes than the tree"),
            ),
        ),
        source="semantics B.4b",
    ),
)
