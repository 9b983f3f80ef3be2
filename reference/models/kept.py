"""The forwards over digests that are kept: of every slot they read what was written since they read it last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specsim.conformance.arrays import Array
from specsim.hashing import digest_rows
from specsim.operations.outputs import DraftDecodeForwardOutputs, DraftExtendForwardOutputs
from specsim.reference.models.folds import ListedSlots, Sight, own_keys
from specsim.reference.models.forwards import run_draft, run_target
from specsim.simulation.models.kv_pool import KVPool
from specsim.validation.checking import check_call


@dataclass(frozen=True)
class KeptForwards:
    """The operations of the same names, with the same arguments, on the buffers of one pool.

    ``tags`` are K and V of each layer in turn, as they are or after the form that stores them; what a forward is given
    as ``kv_buffers`` is only checked.
    """

    kv: KVPool
    tags: Sequence[Any]

    def target_forward(self, **arguments: Any) -> Array:
        """Run the target."""
        check_call("target_forward", arguments)
        sight = own_keys(*_keys(arguments), arguments["tree_mask"], arguments["page_size"])
        return run_target(self.tags, *_new(arguments), sight, self._digests)

    def draft_extend_forward(self, **arguments: Any) -> DraftExtendForwardOutputs[Array]:
        """Run the draft over several new tokens a request."""
        check_call("draft_extend_forward", arguments)
        return self._run_draft(arguments, own_keys(*_keys(arguments), None, arguments["page_size"]))

    def draft_decode_forward(self, **arguments: Any) -> DraftDecodeForwardOutputs[Array]:
        """Run the draft over one new token a beam."""
        check_call("draft_decode_forward", arguments)
        sight = ListedSlots(arguments["kv_indices"], arguments["kv_indptr"])
        return DraftDecodeForwardOutputs(*self._run_draft(arguments, sight))

    def _run_draft(self, arguments: Mapping[str, Any], sight: Sight) -> DraftExtendForwardOutputs[Array]:
        return run_draft(self.tags, *_new(arguments), arguments["hidden_states"], sight, self._digests)

    def _digests(self, layer: int) -> Array:
        keys, values = self.tags[2 * layer : 2 * layer + 2]
        return self.kv.words(layer, lambda slots: digest_rows(keys[slots]) + digest_rows(values[slots]))


def _new(arguments: Mapping[str, Any]) -> tuple[Array, Array, Array]:
    """Return token, position and slot of each new entry."""
    return arguments["input_ids"], arguments["positions"], arguments["out_cache_loc"]


def _keys(arguments: Mapping[str, Any]) -> tuple[Array, Array, Array]:
    """Return the page table, how many keys each request has, and where its tokens start."""
    return arguments["page_table"], arguments["cache_seqlens"], arguments["cu_seqlens_q"]
