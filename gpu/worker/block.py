"""Blocks of a batch on the device: one forward of the draft, the target over them as chains, and acceptance."""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from specsim import gpu
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.carried import device_zeros
from specsim.gpu.worker.graphs import Kind
from specsim.gpu.worker.pools import Buffers, Pools
from specsim.gpu.worker.staged import Staged
from specsim.gpu.worker.stages import Setting
from specsim.gpu.worker.verify import run_target, verify, verify_keys
from specsim.host.dflash import DflashParameters
from specsim.phases import DflashVerifyInput, VerifyOutput
from specsim.simulation.models.batches import PagedKeys, TargetOutput
from specsim.simulation.models.block import BlockBatch, BlockModel
from specsim.simulation.models.description import Side


@dataclass(frozen=True)
class Roots:
    """What starts the blocks of a batch, and the slots that the target writes.

    ``req_pool_indices``, ``seq_lens`` and ``bonus_tokens`` int64 [request], ``window`` int64 [request*node].
    """

    req_pool_indices: Tensor
    seq_lens: Tensor
    bonus_tokens: Tensor
    window: Tensor

    @property
    def num_requests(self) -> int:
        """Requests of the batch."""
        return len(self.req_pool_indices)

    @classmethod
    def of_padding(cls, size: int, num_nodes: int) -> "Roots":
        """Return what pads a batch: row 0, length 1."""
        rows, tokens = (device_zeros((size,), "int64") for _ in range(2))
        lengths = torch.ones(size, dtype=torch.int64, device=DEVICE)
        return cls(rows, lengths, tokens, device_zeros((size * num_nodes,), "int64"))


class BlockStages:
    """The stages of one batch, run in order; the attributes are what they left.

    Once captured, a stage replays, and reads whatever ``load`` has brought.

    Parameters
    ----------
    setting : Setting
        What all batches of a worker share.
    parameters : DflashParameters
        The block.
    model : BlockModel
        The model of the setting.
    kind : Kind
        Whether requests are sampled.
    roots : Roots
        What starts the blocks.
    """

    verify_input: DflashVerifyInput
    output: TargetOutput[Tensor]
    scratch: Buffers
    verify_output: VerifyOutput

    def __init__(
        self, setting: Setting, parameters: DflashParameters, model: BlockModel[Tensor], kind: Kind, roots: Roots
    ) -> None:
        self._setting = setting
        self._parameters = parameters
        self._model = model
        self._kind = kind
        self._roots = roots
        self._staged = Staged({"draft": self._draft, "target": self._target, "accept": self._accept})

    def load(self, roots: Roots) -> None:
        """Bring a batch to where the stages read it, without waiting; padding stays behind it."""
        held = self._roots
        for field in fields(roots):
            given = getattr(roots, field.name)
            getattr(held, field.name)[: len(given)].copy_(given)
        for name in ("req_pool_indices", "bonus_tokens", "window"):
            getattr(held, name)[len(getattr(roots, name)) :].zero_()
        held.seq_lens[roots.num_requests :].fill_(1)

    def draft(self) -> None:
        """Draft the blocks on the borrowed slots in the map."""
        self._staged.run("draft")

    def target(self) -> None:
        """Run the target over the chains; the slots of the window are in the map."""
        self._staged.run("target")

    def accept(self) -> None:
        """Accept along the chains by logits that are final."""
        self._staged.run("accept")

    def capture(self, pool: Any | None) -> Any:
        """Capture every stage into the memory that all graphs of the worker share, and return that memory."""
        return self._staged.capture(self._roots.req_pool_indices, pool)

    def _draft(self) -> None:
        setting = self._setting
        self.verify_input = draft_blocks(self._roots, self._parameters, self._model, setting.pools, setting.page_size)

    def _target(self) -> None:
        rows, setting = self._roots.req_pool_indices, self._setting
        keys = verify_keys(rows, self.verify_input, setting.pools)
        self.output, self.scratch = run_target(
            rows, self.verify_input, keys, setting.model, setting.pools, *self._kind.wants
        )

    def _accept(self) -> None:
        setting = self._setting
        decided_by = setting.choices.deciding(self._kind.is_sampled, self._kind.has_rules)
        self.verify_output = verify(
            self._roots.req_pool_indices, self.verify_input, self.output, setting.config.num_steps, *decided_by
        )


def draft_blocks(
    roots: Roots, parameters: DflashParameters, model: BlockModel[Tensor], pools: Pools, page_size: int
) -> DflashVerifyInput:
    """Draft a block for every request, where the map says, and return it as a chain (semantics A.14)."""
    size = parameters.block_size
    input_ids, positions = gpu.prepare_block_draft(roots.bonus_tokens, roots.seq_lens, parameters.mask_token, size)
    slots = pools.read_slots(roots.req_pool_indices, roots.seq_lens, size)
    batch = BlockBatch(input_ids, positions, slots, _keys(roots, parameters, pools, page_size), size)
    drafted = model.draft_block(batch, pools.kv[Side.DRAFT])
    drafts = gpu.argmax_target_predict(drafted.probabilities).view(-1, size - 1)
    kept = gpu.organize_chain_draft_results([drafts[:, depth : depth + 1] for depth in range(size - 1)])
    chain = gpu.build_tree(roots.bonus_tokens, *kept, roots.seq_lens, 1, size - 1, size)
    return DflashVerifyInput(*chain, roots.window, roots.seq_lens, size)


def _keys(roots: Roots, parameters: DflashParameters, pools: Pools, page_size: int) -> PagedKeys[Tensor]:
    """Return the keys of the blocks: all that is committed or a window of it, and the block."""
    rows, size = pools.req_to_token, parameters.block_size
    if parameters.draft_window is None:
        cache_seqlens, cu_seqlens_q, _, page_table = gpu.target_verify_metadata(
            roots.req_pool_indices, rows, roots.seq_lens, roots.num_requests * size, rows.shape[1], 1
        )
        return PagedKeys(page_table, cache_seqlens, cu_seqlens_q, 1)
    _, cache_seqlens, cu_seqlens_q, page_table = gpu.block_draft_metadata(
        roots.req_pool_indices, rows, roots.seq_lens, parameters.draft_window, size, page_size
    )
    return PagedKeys(page_table, cache_seqlens, cu_seqlens_q, 1)
