"""The draft side of DFLASH in NumPy: where roots wait, and which features are those of accepted tokens."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specsim.assertion import require_present
from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.arrays import Array
from specsim.phases import DflashDraftInput, VerifyInput, VerifyOutput
from specsim.reference.worker.pools import Pools
from specsim.simulation.draft_sides.dflash import BlockSide
from specsim.simulation.sides import Followed, Waiting


class WaitingRoots:
    """The roots of the next blocks by request row; every feature is KV already."""

    def __init__(self, sizes: PoolSizes) -> None:
        self.bonus_tokens = np.zeros(sizes.num_rows, dtype=np.int64)
        self.seq_lens = np.zeros(sizes.num_rows, dtype=np.int32)

    def take(self, rows: Sequence[int]) -> DflashDraftInput:
        """Return what starts the blocks of these rows."""
        row = np.array(rows, dtype=np.int64)
        return DflashDraftInput(row, self.bonus_tokens[row], None, np.zeros(len(row), np.int32), self.seq_lens[row])

    def keep(self, start: DflashDraftInput, joins: bool = False) -> None:
        """Keep roots and lengths."""
        self.bonus_tokens[start.req_pool_indices] = start.bonus_tokens
        self.seq_lens[start.req_pool_indices] = start.draft_seq_lens

    def state(self) -> dict[str, Any]:
        """Return both by name."""
        return {"seq_lens": self.seq_lens, "bonus_tokens": self.bonus_tokens}


class DflashSide(BlockSide):
    """Features of a verify become KV along its paths, without those of rejected nodes."""

    def waiting(self, is_v1: bool) -> Waiting:
        """Return roots by row."""
        return WaitingRoots(self._sizes)

    def follow(
        self,
        start: DflashDraftInput,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Array]:
        """Make KV of the features along the accepted paths, whatever ends them later."""
        tokens = self._block_tokens(verify_input, verify_output)
        committed = self._committed(start, verify_output)
        self._project(committed, pools)
        return Followed(committed, committed, tokens)

    def _committed(self, start: DflashDraftInput, phase: VerifyOutput) -> DflashDraftInput:
        """Return the features along the accepted paths, and the roots to come."""
        features = require_present("hidden_states", phase.hidden_states)
        return DflashDraftInput(
            req_pool_indices=start.req_pool_indices,
            bonus_tokens=phase.bonus_tokens.astype(np.int64),
            target_hidden=features[phase.accept_index[phase.accept_index >= 0]],
            ctx_lens=phase.num_accepted_tokens,
            draft_seq_lens=start.draft_seq_lens + phase.num_accepted_tokens,
        )
