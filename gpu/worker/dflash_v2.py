"""The V2 worker of DFLASH on the device: an iteration is queued without waiting, and frees nothing.

Roots and lengths lie on the device by request row; the host waits for the tokens of an iteration when it asks for them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specsim import gpu
from specsim.assertion import require_present
from specsim.config import PoolSizes
from specsim.gpu.arrays import DEVICE, to_numpy
from specsim.gpu.worker.block import Roots, draft_blocks
from specsim.gpu.worker.carried import device_zeros
from specsim.gpu.worker.choices import ChoiceRows
from specsim.gpu.worker.constraints import constrain_trees
from specsim.gpu.worker.graphs import Kind, bucket_for, bucket_sizes, pad_rows, require_graphs
from specsim.gpu.worker.pools import CARRIED, Buffers, Pools, flat_ranges
from specsim.gpu.worker.prefill import device_array, prefill_target
from specsim.gpu.worker.staged import Staged
from specsim.gpu.worker.transfer import on_host
from specsim.gpu.worker.verify import run_target, verify, verify_keys
from specsim.host.choice import TokenChoice
from specsim.host.dflash import DflashParameters
from specsim.phases import DflashDraftInput, DflashVerifyInput, Phase, VerifyOutput
from specsim.simulation.dflash import check_dflash_request
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.batches import TargetOutput
from specsim.simulation.models.block import BlockModel, FeatureBatch, require_block_model
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import Model
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.worker import Iteration


class BlocksAhead:
    """An iteration of so many rows in two stages, captured or not; the attributes are what they left."""

    roots: Roots
    verify_input: DflashVerifyInput
    output: TargetOutput[Tensor]
    scratch: Buffers
    verify_output: VerifyOutput
    tokens: Tensor

    def __init__(self, worker: "GpuDflashWorkerV2", kind: Kind, rows: Tensor) -> None:
        self._worker = worker
        self._kind = kind
        self.rows = rows
        self.staged = Staged({"start": self._start, "finish": self._finish})

    def _start(self) -> None:
        """Draft the blocks, and run the target over them."""
        worker, rows = self._worker, self.rows
        pools = worker.pools
        lengths, roots = worker.seq_lens.index_select(0, rows), worker.bonus_tokens.index_select(0, rows)
        window = pools.read_slots(rows, lengths, worker.parameters.block_size)
        self.roots = Roots(rows, lengths, roots, window)
        model, parameters = worker.block_model, worker.parameters
        self.verify_input = draft_blocks(self.roots, parameters, model, pools, worker.sizes.page_size)
        keys = verify_keys(rows, self.verify_input, pools)
        self.output, self.scratch = run_target(rows, self.verify_input, keys, model, pools, *self._kind.wants)

    def _finish(self) -> None:
        """Accept, make KV of the features of what was accepted, and let lengths and roots move on."""
        worker, rows, phase = self._worker, self.rows, self.verify_input
        pools, size = worker.pools, worker.parameters.block_size
        choices, rules = worker.choices.deciding(self._kind.is_sampled, self._kind.has_rules)
        self.verify_output = verify(rows, phase, self.output, self._kind.num_steps, choices, rules)
        accepted = self.verify_output
        counts = accepted.num_accepted_tokens
        if pools.states:
            pools.commit_states(self.scratch, rows, phase.seq_lens, accepted.accept_index, counts, size)
        self.tokens = gpu.fill_block_tokens(
            phase.draft_token.view(-1, size), accepted.num_accepted_drafts, accepted.bonus_tokens
        )
        place = torch.arange(size, device=rows.device)
        slots = phase.out_cache_loc.view(-1, size) * (place < counts[:, None])
        features = require_present("hidden_states", accepted.hidden_states)
        worker.block_model.project_features(
            FeatureBatch(phase.positions, slots.view(-1), features), pools.kv[Side.DRAFT]
        )
        worker.stash(rows, phase.seq_lens + counts, accepted.bonus_tokens.long())


class GpuDflashWorkerV2:
    """Draft a block where the verify will write, verify it as a chain, project the features of what was accepted.

    Parameters
    ----------
    parameters : DflashParameters
        The block.
    model : BlockModel
        Target and draft, on torch tensors.
    sizes : PoolSizes
        Slots, rows and row width.
    use_graphs : bool, optional
        Capture and replay; by default wherever there is a GPU and the model can be captured.
    pads : bool
        Pad batches to buckets in eager mode too; graphs always do.
    pools : Pools, optional
        Those of a worker of another block, to go on in.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: no model, one that drafts no blocks, or graphs of one that cannot be captured; WRONG_DEVICE:
        graphs were asked for where there is no GPU.

    Notes
    -----
    Source: semantics A.14b.
    """

    name = "gpu-dflash-v2"
    has_plain_keys = True

    def __init__(
        self,
        parameters: DflashParameters,
        model: BlockModel[Tensor],
        sizes: PoolSizes,
        use_graphs: bool | None = None,
        pads: bool = False,
        pools: Pools | None = None,
    ) -> None:
        description = require_block_model(model, "torch")
        self.parameters = parameters
        self.config = parameters.config
        self.model: Model[Tensor] = model
        self.block_model = model
        self.sizes = sizes
        is_possible = DEVICE.type == "cuda" and description.is_capturable
        self.use_graphs = is_possible if use_graphs is None else use_graphs
        if self.use_graphs:
            require_graphs(description.name, description.is_capturable)
        self.device = torch.cuda.get_device_name(DEVICE) if DEVICE.type == "cuda" else "cpu (Triton interpreter)"
        widths = 1, parameters.block_size
        self.pools = Pools(description, *widths, sizes, DEVICE) if pools is None else pools.resized(*widths)
        self.choices = ChoiceRows(sizes.num_rows, DEVICE, is_top_k_exact=True)
        self.bonus_tokens = device_zeros((sizes.num_rows,), "int64")
        self.seq_lens = torch.ones(sizes.num_rows, dtype=torch.int64, device=DEVICE)
        self._pads = pads or self.use_graphs
        self._buckets = bucket_sizes(max(sizes.num_rows - 1, 1))
        self._captured: dict[tuple[int, Kind], BlocksAhead] = {}
        self._graph_memory: Any = None
        self._last: tuple[BlocksAhead, int] | None = None
        if self.use_graphs:
            for size in reversed(self._buckets):
                self._captured_blocks(size, Kind(self.config.num_steps, False))

    def check_request(self, request: Request) -> None:
        """Refuse a request that brings a grammar or asks for log-probabilities."""
        check_dflash_request(request)

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self.pools.assign_slots([device_array(numbers, DEVICE) for numbers in flat_ranges(ranges)])

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how the tokens of joining requests are chosen."""
        self.choices.assign(rows, choices)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts through the target, and make KV of their features; return the token behind each."""
        behind = prefill_target(rows, chunks, self.model, self.pools, self.choices)
        features = require_present("hidden_states", behind.output.hidden_states)
        given = FeatureBatch(behind.positions, behind.out_cache_loc, features)
        self.block_model.project_features(given, self.pools.kv[Side.DRAFT])
        self.stash(behind.row, behind.ends, behind.following)
        return [int(token) for token in behind.following.tolist()]

    def decode(self, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration and bring its tokens and counts to the host."""
        self.launch(rows)
        blocks, live = require_present("launched", self._last)
        accepted = blocks.verify_output
        return Iteration(
            tokens=to_numpy(blocks.tokens[:live].int()),
            num_accepted_drafts=to_numpy(accepted.num_accepted_drafts[:live]),
            num_accepted_tokens=to_numpy(accepted.num_accepted_tokens[:live]),
        )

    def launch(self, rows: Sequence[int]) -> None:
        """Queue one iteration without waiting for it, but where a processor looks at its logits."""
        asked = self.choices.asked(rows)
        kind = Kind(self.config.num_steps, *asked.wants)
        size = bucket_for(len(rows), self._buckets) if self._pads else len(rows)
        padded = pad_rows(rows, size)
        if self.use_graphs:
            blocks = self._captured_blocks(size, kind)
            blocks.rows.copy_(padded.pin_memory(), non_blocking=True)
        else:
            blocks = BlocksAhead(self, kind, padded.to(DEVICE))
        blocks.staged.run("start")
        if asked.is_constrained:
            constrain_trees(blocks.output, blocks.verify_input, asked.choices)
        blocks.staged.run("finish")
        self._last = blocks, len(rows)

    def stash(self, rows: Tensor, seq_lens: Tensor, bonus_tokens: Tensor) -> None:
        """Keep what starts the next blocks; the padding row keeps its length of 1."""
        self.seq_lens.index_copy_(0, rows, seq_lens)
        self.seq_lens[:1].fill_(1)
        self.bonus_tokens.index_copy_(0, rows, bonus_tokens)

    def resized(self, parameters: DflashParameters) -> "GpuDflashWorkerV2":
        """Return a worker of another block in the same maps, KV and states, with graphs of its own."""
        return type(self)(parameters, self.block_model, self.sizes, self.use_graphs, self._pads, self.pools)

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over, live rows only, as NumPy arrays."""
        if self._last is None:
            return ()
        blocks, live = self._last
        roots, size = blocks.roots, self.parameters.block_size
        rows, lengths, tokens = (
            to_numpy(one[:live]) for one in (roots.req_pool_indices, roots.seq_lens, roots.bonus_tokens)
        )
        verify_output = on_host(blocks.verify_output, live)
        accepted = vars(verify_output)
        counts, features = accepted["num_accepted_tokens"], accepted["hidden_states"]
        is_kept = (np.arange(size) < counts[:, None]).reshape(-1)
        before, nothing = lengths.astype(np.int32), np.zeros(live, dtype=np.int32)
        roots_to_come = accepted["bonus_tokens"].astype(np.int64)
        return (
            DflashDraftInput(rows, tokens, None, nothing, before),
            on_host(blocks.verify_input, live),
            verify_output,
            DflashDraftInput(rows, roots_to_come, features[is_kept], counts, before + counts),
        )

    def state(self) -> dict[str, Any]:
        """Return the carried state by name as NumPy arrays, roots and lengths by request row."""
        pools = {name: value for name, value in self.pools.state().items() if name not in CARRIED}
        lengths = to_numpy(self.seq_lens).astype(np.int32)
        return {**pools, "seq_lens": lengths, "bonus_tokens": to_numpy(self.bonus_tokens)}

    def _captured_blocks(self, size: int, kind: Kind) -> BlocksAhead:
        """Return a bucket's graphs; those that are not greedy are captured when needed."""
        if (size, kind) not in self._captured:
            blocks = BlocksAhead(self, kind, device_zeros((size,), "int64"))
            self._graph_memory = blocks.staged.capture(blocks.rows, self._graph_memory)
            self._captured[size, kind] = blocks
        return self._captured[size, kind]
