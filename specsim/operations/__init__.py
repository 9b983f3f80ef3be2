"""The tables: facts about every operation, in pipeline order. No callables stand here."""

from specsim import discovery
from specsim.operations.models import MODEL_GROUPS, MODEL_TABLE
from specsim.operations.record import Operation

GROUPS = (
    "draft",
    "draft_cache",
    "tree",
    "dflash",
    "verify",
    "scheduled",
    "attention",
    "grammar",
    "penalties",
    "following",
    "probabilities",
    "acceptance",
    "from_logits",
    "sampled_verify",
    "logprobs",
    "compact",
    "pools",
    "recurrent",
    "slots",
    "pages",
    "extend",
    "multi_layer",
    "frozen_kv",
)
"""The groups in pipeline order, which is the order of everything that follows from the tables."""

TABLE: dict[str, Operation] = {
    operation.name: operation
    for group in discovery.modules_of(__name__, GROUPS).values()
    for operation in group.OPERATIONS
}
"""The public operations."""

RECORDS: dict[str, Operation] = {**TABLE, **MODEL_TABLE}
"""Every record by name, the public ones first: for code that is handed a name and does not care which table has it."""

ALL_GROUPS = (*GROUPS, *MODEL_GROUPS)
"""The groups of both tables: the names of modules in every layer."""

__all__ = ["ALL_GROUPS", "GROUPS", "MODEL_GROUPS", "MODEL_TABLE", "RECORDS", "TABLE", "Operation"]
