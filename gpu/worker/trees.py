"""Trees that the host has grown, as a batch of the device: their links, the target over them, and acceptance."""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from specsim import gpu
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.carried import device_zeros
from specsim.gpu.worker.compact import move_accepted
from specsim.gpu.worker.graphs import Kind
from specsim.gpu.worker.pools import Buffers
from specsim.gpu.worker.staged import Staged
from specsim.gpu.worker.stages import Setting
from specsim.gpu.worker.verify import run_target, verify, verify_keys
from specsim.phases import VerifyInput, VerifyOutput
from specsim.simulation.models.batches import TargetOutput


@dataclass(frozen=True)
class GrownTrees:
    """Trees of a batch on the device, and the slots that the target writes.

    ``req_pool_indices`` and ``seq_lens`` int64 [request], ``draft_token`` and ``window`` int64 [request*node],
    ``tree_mask`` bool [request, node, node].
    """

    req_pool_indices: Tensor
    seq_lens: Tensor
    draft_token: Tensor
    window: Tensor
    tree_mask: Tensor

    @property
    def num_requests(self) -> int:
        """Requests of the batch."""
        return len(self.req_pool_indices)

    @classmethod
    def of_padding(cls, size: int, num_nodes: int) -> "GrownTrees":
        """Return trees of requests that pad a batch: row 0, length 1, and every node below the root."""
        return cls(
            req_pool_indices=device_zeros((size,), "int64"),
            seq_lens=torch.ones(size, dtype=torch.int64, device=DEVICE),
            draft_token=device_zeros((size * num_nodes,), "int64"),
            window=device_zeros((size * num_nodes,), "int64"),
            tree_mask=_fan(num_nodes).repeat(size, 1, 1),
        )


class TreeStages:
    """The stages of one batch behind its drafts, run in order; the attributes are what they left.

    Once captured, a stage replays, and reads whatever ``load`` has brought.

    Parameters
    ----------
    setting : Setting
        What all batches of a worker share.
    kind : Kind
        Whether requests are sampled.
    trees : GrownTrees
        What the target verifies.
    moves : bool
        Accepted KV and states go where they stay in a stage of their own, as V2 has it.
    """

    verify_input: VerifyInput
    output: TargetOutput[Tensor]
    scratch: Buffers
    verify_output: VerifyOutput

    def __init__(self, setting: Setting, kind: Kind, trees: GrownTrees, moves: bool) -> None:
        self._setting = setting
        self._kind = kind
        self._trees = trees
        self._fan = _fan(setting.config.num_draft_tokens)
        stages = {"target": self._target, "accept": self._accept}
        self._staged = Staged({**stages, "move": self._move} if moves else stages)

    @classmethod
    def of_padding(cls, setting: Setting, kind: Kind, size: int, moves: bool) -> "TreeStages":
        """Return the stages of so many padding requests, to be loaded."""
        return cls(setting, kind, GrownTrees.of_padding(size, setting.config.num_draft_tokens), moves)

    def load(self, trees: GrownTrees) -> None:
        """Bring a batch to where the stages read it, without waiting; padding stays behind it."""
        held = self._trees
        for field in fields(trees):
            given = getattr(trees, field.name)
            getattr(held, field.name)[: len(given)].copy_(given)
        for name in ("req_pool_indices", "draft_token", "window"):
            getattr(held, name)[len(getattr(trees, name)) :].zero_()
        held.seq_lens[trees.num_requests :].fill_(1)
        held.tree_mask[trees.num_requests :].copy_(self._fan)

    def target(self) -> None:
        """Read the links of the trees from their masks, and run the target over them."""
        self._staged.run("target")

    def accept(self) -> None:
        """Accept along the trees by logits that are final."""
        self._staged.run("accept")

    def move(self) -> None:
        """Keep the states after the accepted paths, and move their KV to the front."""
        self._staged.run("move")

    def capture(self, pool: Any | None) -> Any:
        """Capture every stage into the memory that all graphs of the worker share, and return that memory."""
        return self._staged.capture(self._trees.req_pool_indices, pool)

    def _target(self) -> None:
        trees, setting = self._trees, self._setting
        links = gpu.reconstruct_indices_from_tree_mask(trees.tree_mask, trees.seq_lens)
        self.verify_input = VerifyInput(
            draft_token=trees.draft_token,
            retrieve_index=links.retrieve_index,
            retrieve_next_token=links.retrieve_next_token,
            retrieve_next_sibling=links.retrieve_next_sibling,
            positions=links.positions,
            tree_mask=trees.tree_mask.view(-1),
            out_cache_loc=trees.window,
            seq_lens=trees.seq_lens,
            num_draft_tokens=setting.config.num_draft_tokens,
        )
        rows = trees.req_pool_indices
        keys = verify_keys(rows, self.verify_input, setting.pools)
        self.output, self.scratch = run_target(
            rows, self.verify_input, keys, setting.model, setting.pools, *self._kind.wants
        )

    def _accept(self) -> None:
        setting = self._setting
        decided_by = setting.choices.deciding(self._kind.is_sampled, self._kind.has_rules)
        self.verify_output = verify(
            self._trees.req_pool_indices, self.verify_input, self.output, setting.config.num_steps, *decided_by
        )

    def _move(self) -> None:
        pools, phase = self._setting.pools, self.verify_output
        if pools.states:
            seq_lens, rows = self.verify_input.seq_lens, self._trees.req_pool_indices
            num_nodes = self.verify_input.num_draft_tokens
            counts = phase.num_accepted_tokens
            pools.commit_states(self.scratch, rows, seq_lens, phase.accept_index, counts, num_nodes)
        move_accepted(self.verify_input, phase, self._setting.config.num_steps, pools)


def _fan(num_nodes: int) -> Tensor:
    """Return the mask of a tree whose nodes are all children of its root, bool [node, node]."""
    mask = torch.eye(num_nodes, dtype=torch.bool, device=DEVICE)
    mask[:, :1] = True
    return mask
