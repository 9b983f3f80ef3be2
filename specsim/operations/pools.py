"""Pools: moves of buffers that are not one row a slot, and of pools that have slots of their own."""

from specsim.config import INDEXER_GROUP, INDEXER_PAGE_KEYS, INDEXER_SCALE_BYTES
from specsim.contracts.contract import Contract, Requirement, ScalarSpec, Unit, array
from specsim.operations.record import Operation

_PAGE_BYTES = f"{INDEXER_PAGE_KEYS}*(head_dim+{INDEXER_SCALE_BYTES}*head_dim//{INDEXER_GROUP})"
_PAIR_OF_PAGES = ("0", f"{INDEXER_PAGE_KEYS}*page-1")
_PAIR_OF_POOL = ("0", "slot-1")

OPERATIONS = (
    Operation(
        name="move_indexer_cache",
        group="pools",
        summary="Copy key and scale of slots in every indexer buffer, all read before any is written.",
        contract=Contract(
            parameters=(
                array("indexer_buffers", f"uint8 [page, {_PAGE_BYTES}]", Unit.TAG, each="layer", can_be_empty=True),
                array("target_slots", "int64 [pair]", Unit.SLOT, within=_PAIR_OF_PAGES),
                array("source_slots", "int64 [pair]", Unit.SLOT, within=_PAIR_OF_PAGES),
                ScalarSpec("head_dim", low="32", high="2**16"),
            ),
            requires=(Requirement("head_dim % 32 == 0", "a scale takes whole bytes, one for 32 of its key"),),
            writes=("indexer_buffers",),
        ),
        source="semantics C.6",
    ),
    Operation(
        name="translate_move_slots",
        group="pools",
        summary="Find the pairs of a move in the window's pool; slots without a counterpart are the dump there.",
        contract=Contract(
            parameters=(
                array("target_slots", "int64 [pair]", Unit.SLOT, within=_PAIR_OF_POOL),
                array("source_slots", "int64 [pair]", Unit.SLOT, within=_PAIR_OF_POOL),
                array("full_to_swa", "int64|int32 [slot]", Unit.SLOT, within=("0", None)),
            ),
            outputs=(
                array("swa_target_slots", "int64 [pair]", Unit.SLOT),
                array("swa_source_slots", "int64 [pair]", Unit.SLOT),
            ),
        ),
        source="semantics C.6",
    ),
)
