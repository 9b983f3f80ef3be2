"""Compact: bring the accepted path to the front, in ids, hidden states and KV."""

from specsim.contracts.contract import Contract, Defined, Requirement, Unit, array
from specsim.operations.record import Operation
from specsim.operations.shared import ACCEPT_INDEX, OUT_CACHE_LOC, PREDICT, VERIFY_DEPTH

_FITS = Requirement("draft+1 <= node or request == 0", "an accepted path has no more nodes than the tree")
_COUNT = array("num_accepted_tokens", "int32 [request]", Unit.COUNT, within=("1", "draft+1"))

OPERATIONS = (
    Operation(
        name="gather_accept_tokens",
        group="compact",
        summary="Read the output tokens along each accepted path; entries past the path are 0.",
        contract=Contract(
            parameters=(PREDICT, ACCEPT_INDEX),
            outputs=(array("accept_tokens", "int32 [request, draft+1]", Unit.TOKEN),),
        ),
        source="semantics 0.3, C.3",
    ),
    Operation(
        name="fill_bonus_tokens",
        group="compact",
        summary="Pick the last output token of each request.",
        contract=Contract(
            parameters=(
                array(
                    "accept_tokens",
                    "int32 [request, draft+1]",
                    Unit.TOKEN,
                    within=("0", None),
                    defined=Defined("prefix", "num_accepted_tokens"),
                ),
                _COUNT,
            ),
            outputs=(array("bonus_tokens", "int32 [request]", Unit.TOKEN),),
        ),
        source="semantics C.3",
    ),
    Operation(
        name="fill_accept_out_cache_loc",
        group="compact",
        summary="List the slots of the accepted nodes, packed to the front; the tail is dump slot 0.",
        contract=Contract(
            parameters=(ACCEPT_INDEX, OUT_CACHE_LOC),
            outputs=(array("source_slots", "int64 [request*(draft+1)]", Unit.SLOT),),
            requires=(_FITS,),
        ),
        source="semantics C.4",
    ),
    Operation(
        name="fill_accept_target_cache_loc",
        group="compact",
        summary="List the slots that the accepted nodes move to, packed like their sources.",
        contract=Contract(
            parameters=(_COUNT, OUT_CACHE_LOC, VERIFY_DEPTH),
            outputs=(array("target_slots", "int64 [request*(draft+1)]", Unit.SLOT),),
            requires=(_FITS,),
        ),
        source="semantics C.4, the verify-window form",
    ),
    Operation(
        name="compact_accepted_to_front",
        group="compact",
        summary="Bring the entries of the accepted path to the front of each request's block.",
        contract=Contract(
            parameters=(array("values", "any [request*node, ...]", Unit.ANY), ACCEPT_INDEX),
            outputs=(
                array(
                    "compacted", "like values [request*node, ...]", Unit.ANY, defined=Defined("front", "accept_index")
                ),
            ),
            requires=(_FITS,),
        ),
        source="semantics C.5, sglang #26997",
    ),
    Operation(
        name="move_kv_cache",
        group="compact",
        summary="Copy slots of every buffer as if all sources were read before any target is written.",
        contract=Contract(
            parameters=(
                array("kv_buffers", "any [slot, ...]", Unit.TAG, each="buffer"),
                array("target_slots", "int64 [pair]", Unit.SLOT, within=("0", "slot-1")),
                array("source_slots", "int64 [pair]", Unit.SLOT, within=("0", "slot-1")),
            ),
            writes=("kv_buffers",),
        ),
        source="semantics C.6",
    ),
)
