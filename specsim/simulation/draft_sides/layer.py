"""What a layer gives to a draft side that both layers run: how arrays are made, and the pools that drafts read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from specsim.config import SpecConfig
from specsim.operations.outputs import BuildTreeOutputs, SelectTopKTokensOutputs
from specsim.phases import DraftExtendInput, EagleDraftExtendInput, VerifyInput, VerifyOutput
from specsim.simulation.models.batches import ListedKeys, PagedKeys
from specsim.simulation.models.description import Side

ArrayT = TypeVar("ArrayT")
Compacted = tuple[DraftExtendInput, Any, Any]
"""The input of an extend after a verify, int64 [request], the lengths after it, and int32 [request*node], its tokens.

The output tokens of each request are at the front.
"""


class ArrayLibrary(Protocol):
    """What is done with arrays beside operations; a module, NumPy's or torch's, whose arrays lie where the pools do.

    All but ``asarray`` and ``to_numpy`` can be captured.
    """

    KIND: str
    """What they are called in the descriptions of models."""

    def asarray(self, values: Any, dtype: str = "int64") -> Any:
        """Return numbers of the host as an array."""

    def astype(self, values: Any, dtype: str) -> Any:
        """Return an array with elements of another type."""

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Return zeros."""

    def full(self, shape: tuple[int, ...], fill: Any, dtype: str) -> Any:
        """Return one entry many times."""

    def arange(self, stop: int) -> Any:
        """Return int64 [stop], the numbers from 0."""

    def repeat(self, values: Any, count: int) -> Any:
        """Return every entry along the first axis so many times, one after another."""

    def take(self, values: Any, places: Any) -> Any:
        """Return entries along the first axis, by int64 places."""

    def concat(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        """Return arrays one after another along an axis."""

    def where(self, condition: Any, value: Any, other: Any) -> Any:
        """Return entries of one value where a condition holds, else of the other."""

    def copy(self, values: Any) -> Any:
        """Return an array that later writes do not reach."""

    def to_numpy(self, values: Any) -> Any:
        """Bring an array to the host, which waits for it."""

    def compact(self, verify_input: VerifyInput, phase: VerifyOutput, is_chain: bool, operations: Any) -> Compacted:
        """Bring ids and hidden states of accepted paths to the front, and lay out an extend over all nodes."""

    def choose_beams(
        self,
        step_index: int,
        probabilities: Any,
        hot_token_id: Any,
        hidden_states: Any,
        scores: Any,
        topk: int,
        operations: Any,
    ) -> SelectTopKTokensOutputs[Any]:
        """Choose the beams of the next depth from what a step proposes, in ids of the target."""

    def plant_trees(
        self,
        bonus_tokens: Any,
        choices: Sequence[SelectTopKTokensOutputs[Any]],
        seq_lens: Any,
        config: SpecConfig,
        operations: Any,
    ) -> BuildTreeOutputs[Any]:
        """Build the trees of what every step has chosen."""

    def owners_of(self, starts: Any, count: int) -> Any:
        """Return int64 [count]: the place in ``starts`` of the run of entries that each of ``count`` entries is in."""


@dataclass(frozen=True)
class Beams(Generic[ArrayT]):
    """What the beams of a draft read and write at each step.

    Parameters
    ----------
    positions, step_cache_loc : int64 [step, request*topk]
        Where each beam stands, and the slot that it writes.
    kv_indices : int32 [step, request*topk*position]
        The slots that beams attend to, one beam after another.
    kv_indptr : int32 [step, request*topk+1]
        Where those of each beam start, and where the last ones end.
    """

    positions: ArrayT
    step_cache_loc: ArrayT
    kv_indices: ArrayT
    kv_indptr: ArrayT


class DraftPools(Protocol):
    """The pools of a layer, as far as drafts read and write them."""

    @property
    def req_to_token(self) -> Any:
        """Return the request-to-token map."""

    @property
    def kv(self) -> Mapping[Side, Mapping[str, Sequence[Any]]]:
        """Return the buffers of each side, one a layer, by the name of a component."""

    def open(self, side: Side, slots: Any) -> Mapping[str, Sequence[Any]]:
        """Return the buffers of a side for a forward that writes these slots."""

    def move_kv(self, side: Side, target_slots: Any, source_slots: Any, operations: Any) -> None:
        """Copy all that a side stores by slot."""

    def beams(self, row: Any, seq_lens: Any, config: SpecConfig, page_size: int, operations: Any) -> Beams[Any]:
        """Return what beams read and write; pages of their own begin with a copy of the text's last page."""

    def listed_keys(self, row: Any, seq_lens: Any, operations: Any) -> ListedKeys[Any]:
        """Return all that is committed of each of these rows as a list."""

    def keys_of_extend(
        self, row: Any, verify_input: VerifyInput, phase: DraftExtendInput, operations: Any
    ) -> PagedKeys[Any]:
        """Return the keys of a forward that fills the window of a verify again."""

    def ragged_keys(self, phase: EagleDraftExtendInput, operations: Any) -> PagedKeys[Any]:
        """Return the keys of a forward over the accepted tokens."""

    def nodes(self, row: Any, seq_lens: Any, num_nodes: int, operations: Any) -> tuple[Any, PagedKeys[Any]]:
        """Return what a forward over so many nodes of each request writes and reads.

        These are int64 [request*node], their slots, and the keys: all that is committed, and the nodes.
        """

    def read_slots(self, row: Any, seq_lens: Any, count: int, operations: Any) -> Any:
        """Return int64 [request*count], the slots of the ``count`` positions from each request's length."""


AnyPools = Any
"""``DraftPools`` of the layer whose arrays the caller has; a side of one layer may ask more of them."""
