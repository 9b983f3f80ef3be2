"""Log-probabilities: what is reported to users about the tokens that are output."""

from specsim.contracts.contract import ArraySpec, Contract, Defined, Requirement, ScalarSpec, Unit, array, flag
from specsim.operations.record import Operation
from specsim.operations.shared import ACCEPT_INDEX

_ON_PATHS = Defined("at", "accept_index")


def _of_entries(name: str, dtype: str, axis: str, unit: Unit = Unit.LOGPROB) -> ArraySpec:
    """Return an output with one row an entry of ``accept_index``."""
    axes = f"request*(draft+1), {axis}" if axis else "request*(draft+1)"
    return array(name, f"{dtype} [{axes}]", unit, defined=Defined("front", "accept_index"))


OPERATIONS = (
    Operation(
        name="gather_output_logprobs",
        group="logprobs",
        summary="Tell the log-probabilities of output tokens, of the most probable ones and of listed ones.",
        contract=Contract(
            parameters=(
                array("logits", "float32|bfloat16 [request*node, vocab]", Unit.LOGIT, defined=_ON_PATHS),
                ACCEPT_INDEX,
                array("predict", "int32 [request*node]", Unit.TOKEN, within=("0", "vocab-1"), defined=_ON_PATHS),
                array("temperature", "float32 [request]", Unit.TEMPERATURE, within=("0", None), optional=True),
                array("token_ids", "int64 [request, listed]", Unit.TOKEN, within=("0", "vocab-1"), sentinel=-1),
                ScalarSpec("num_top", axis="top", low="0", high="2**10"),
                flag("is_clamped", True),
            ),
            outputs=(
                _of_entries("output_logprobs", "float32", ""),
                _of_entries("top_logprobs", "float32", "top"),
                _of_entries("top_tokens", "int64", "top", Unit.TOKEN),
                _of_entries("listed_logprobs", "float32", "listed"),
            ),
            requires=(
                Requirement("draft+1 <= node or request == 0", "an accepted path has no more nodes than the tree"),
                Requirement("vocab >= 1", "a distribution is over at least one token"),
                Requirement("top <= vocab", "a token is listed once"),
            ),
        ),
        source="semantics C.8",
    ),
)
