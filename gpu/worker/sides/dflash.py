"""The draft side of DFLASH on the device: where roots wait, and where the features of a whole block go."""

from torch import Tensor

from specsim.assertion import require_present
from specsim.config import SpecConfig
from specsim.gpu.worker import arrays
from specsim.gpu.worker.carried import DeviceWaiting, WaitingRows
from specsim.gpu.worker.pools import Pools
from specsim.phases import DflashDraftInput, VerifyInput, VerifyOutput
from specsim.simulation.draft_sides.dflash import BlockSide
from specsim.simulation.sides import Followed


class DflashSide(BlockSide):
    """Features of a verify become KV node by node, those of rejected nodes in slot 0, so that all sizes are known."""

    def waiting(self, is_v1: bool) -> DeviceWaiting:
        """Return roots and lengths by row."""
        rows = (self._sizes.num_rows,)
        carried = {"seq_lens": arrays.zeros(rows, "int32"), "bonus_tokens": arrays.zeros(rows, "int64")}
        return WaitingRows(carried, _start)

    def follow(
        self,
        start: DflashDraftInput,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Tensor]:
        """Make KV of the features of the accepted tokens, whatever ends them later; all others go to slot 0."""
        size, counts = config.num_draft_tokens, verify_output.num_accepted_tokens
        tokens = self._block_tokens(verify_input, verify_output)
        is_accepted = arrays.arange(size) < counts[:, None]
        slots = verify_input.out_cache_loc.view(-1, size) * is_accepted
        features = require_present("hidden_states", verify_output.hidden_states)
        self._store(verify_input.positions, slots.view(-1), features, pools)
        ends, bonus_tokens = start.draft_seq_lens + counts, verify_output.bonus_tokens.long()
        committed = DflashDraftInput(start.req_pool_indices, bonus_tokens, features, counts, ends)
        return Followed(committed, committed, tokens)


def _start(rows: Tensor, seq_lens: Tensor, bonus_tokens: Tensor) -> DflashDraftInput:
    """Return what starts blocks whose features are all KV."""
    return DflashDraftInput(rows, bonus_tokens, None, arrays.zeros(seq_lens.shape, "int32"), seq_lens)
