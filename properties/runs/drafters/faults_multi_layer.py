"""Faults in the loop that drafts from a layer a step: in what its windows begin with, and in what waits for them."""

from collections.abc import Sequence

import numpy as np

from specsim.assertion import require_kind, require_present
from specsim.conformance.arrays import Array
from specsim.phases import Batch, DraftExtendInput, DraftInput, EagleDraftExtendInput, VerifyInput, VerifyOutput
from specsim.properties.mutants.record import mutants_of_sides
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.prefill import TargetPrefill
from specsim.simulation.draft_sides.layered import LayeredSide, Window
from specsim.simulation.models.batches import PagedKeys


class WindowsStay(LayeredSide):
    """Rotates ids where windows should grow: what later layers have of proposals stays."""

    def _grown(self, row: Array, window: Window, tokens: Array, layer: int, pools: Pools) -> Window:
        select = window.select
        turned = self._rotated(window, tokens)
        turned.input_ids[select] = tokens
        return turned


class WindowsGrowOnce(LayeredSide):
    """Grows the second layer's window alone."""

    def _grown(self, row: Array, window: Window, tokens: Array, layer: int, pools: Pools) -> Window:
        if layer == 0:
            return super()._grown(row, window, tokens, layer, pools)
        turned = self._rotated(window, tokens)
        turned.input_ids[window.select] = tokens
        return turned


class ChunksStandAlone(LayeredSide):
    """Rotates a chunk that goes on as if it began its request."""

    def _run(
        self, row: Array, window: Window, keys: PagedKeys[Array], grows: bool, pools: Pools
    ) -> tuple[Array, Array]:
        is_chunk = not window.padding.any() and len(window.input_ids) == int(window.lengths.sum())
        return super()._run(row, window, keys, grows and not (is_chunk and self._in_prefill), pools)

    _in_prefill = False

    def prefill(self, after: TargetPrefill, pools: Pools) -> DraftInput:
        """Run with the flag."""
        self._in_prefill = True
        try:
            return super().prefill(after, pools)
        finally:
            self._in_prefill = False


class NothingWaits(LayeredSide):
    """Never appends to the hidden states that wait."""

    def _keep(self, row: Array, window: Window, counts: Array) -> None:
        """Append nothing."""


class PrefillIsLost(LayeredSide):
    """Appends after a verify alone."""

    def prefill(self, after: TargetPrefill, pools: Pools) -> DraftInput:
        """Forget what the chunks appended."""
        phase = super().prefill(after, pools)
        self._pool[after.row] = 0
        return phase


class RejectedRowsWait(LayeredSide):
    """Appends the whole window, rejected rows included."""

    def _keep(self, row: Array, window: Window, counts: Array) -> None:
        super()._keep(row, window, window.lengths)


class OneRowLess(LayeredSide):
    """Appends a row less than is committed."""

    def _keep(self, row: Array, window: Window, counts: Array) -> None:
        super()._keep(row, window, counts - 1)


class KeptBefore(LayeredSide):
    """Appends before the windows are made, so that they take states of their own rows."""

    def extend(
        self,
        row: Array,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        seq_lens: Array,
        pools: Pools,
    ) -> DraftInput:
        """Append first."""
        starts = (np.arange(len(row)) * phase.num_draft_tokens).astype(np.int32)
        committed = phase.num_accepted_tokens.astype(np.int32)
        self._operations.assign_hidden_states_pool(phase.hidden_states, starts, committed, row, self._pool)
        before = self._pool.copy()
        extended = super().extend(row, verify_input, verify_output, phase, seq_lens, pools)
        self._pool[...] = before
        return extended


class KeptBeforeRagged(LayeredSide):
    """Appends before the windows of accepted tokens are made."""

    def extend_ragged(self, batch: Batch, pools: Pools) -> DraftInput:
        """Append first."""
        phase = require_kind("what is installed", batch.info, EagleDraftExtendInput)
        counts = phase.num_accepted_tokens.astype(np.int32)
        starts = (np.cumsum(counts) - counts).astype(np.int32)
        states = require_present("hidden_states", phase.hidden_states)
        self._operations.assign_hidden_states_pool(states, starts, counts, phase.req_pool_indices, self._pool)
        before = self._pool.copy()
        extended = super().extend_ragged(batch, pools)
        self._pool[...] = before
        return extended


class LayersProposeLate(LayeredSide):
    """Keeps what all layers but the first proposed after the verify before."""

    _before: dict[int, Array] | None = None

    def _run(
        self, row: Array, window: Window, keys: PagedKeys[Array], grows: bool, pools: Pools
    ) -> tuple[Array, Array]:
        values, index = super()._run(row, window, keys, grows, pools)
        before, reported = self._before or {}, index.copy()
        for place, number in enumerate(row.tolist()):
            reported[place, 1:] = before.get(number, index[place])[1:]
        self._before = before | dict(zip(row.tolist(), index, strict=True))
        return values, reported


class StatesOfTheNeighbour(LayeredSide):
    """Appends what is committed of the next request of the batch."""

    def _keep(self, row: Array, window: Window, counts: Array) -> None:
        super()._keep(np.roll(row, 1), window, counts)


class TokensOfTheNeighbour(LayeredSide):
    """Gives each window the proposal of another request."""

    def _grown(self, row: Array, window: Window, tokens: Array, layer: int, pools: Pools) -> Window:
        return super()._grown(row, window, np.roll(tokens, 1), layer, pools)


class SharedFrontIsRewritten(LayeredSide):
    """Writes what lies in front of a request's own positions, too."""

    def prefill(self, after: TargetPrefill, pools: Pools) -> DraftInput:
        """Count every position as the request's own, once its first chunk is through."""
        phase = super().prefill(after, pools)
        self._firsts[after.row] = 0
        return phase


class LastOwnersStart(LayeredSide):
    """Does not notice that another request has the row."""

    def join(self, rows: Sequence[int]) -> None:
        """Forget it."""


class OneLayerForAll(LayeredSide):
    """Carries the first layer's proposal for every step."""

    def _run(
        self, row: Array, window: Window, keys: PagedKeys[Array], grows: bool, pools: Pools
    ) -> tuple[Array, Array]:
        values, index = super()._run(row, window, keys, grows, pools)
        return values, np.repeat(index[:, :1], index.shape[1], axis=1)


_FAULTS: tuple[tuple[str, str, type[LayeredSide]], ...] = (
    ("OWN-1890", "Windows keep their rows, so that later layers keep what was proposed.", WindowsStay),
    (
        "OWN-1902",
        "The second layer's window grows and no other: what further layers have is approximate.",
        WindowsGrowOnce,
    ),
    ("OWN-1891", "A chunk that goes on does not look back.", ChunksStandAlone),
    ("OWN-1892", "The hidden states that wait are those of no one.", NothingWaits),
    ("OWN-1893", "The hidden states of a prefill are lost.", PrefillIsLost),
    ("OWN-1894", "Hidden states of rejected rows wait.", RejectedRowsWait),
    ("OWN-1895", "The last committed hidden state does not wait.", OneRowLess),
    ("OWN-1896", "Hidden states wait before they are needed.", KeptBefore),
    ("OWN-1897", "Hidden states wait in the row of the next request.", StatesOfTheNeighbour),
    ("OWN-1898", "Each window gets the proposal of another request.", TokensOfTheNeighbour),
    ("OWN-1899", "What is cached in front of a chunk is computed from what is not there.", SharedFrontIsRewritten),
    ("OWN-1900", "A row keeps where its last owner began.", LastOwnersStart),
    ("OWN-1901", "Every step drafts what the first layer proposes.", OneLayerForAll),
    ("OWN-1903", "V1: hidden states wait before they are needed.", KeptBeforeRagged),
    ("OWN-1904", "All layers but the first propose late.", LayersProposeLate),
)


MUTANTS = mutants_of_sides("assign_new_state", ["multi_layer_eagle_v1", "multi_layer_eagle_v2"], _FAULTS)
