"""The production V1 worker of DFLASH: blocks are drafted, verified and projected on the device.

The host waits for the device once an iteration, to see what was accepted. Roots and lengths follow from that, so that
it keeps them; what it decides goes up without waiting.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specsim.assertion import require_present
from specsim.config import PoolSizes
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.block import BlockStages, Roots
from specsim.gpu.worker.choices import Asked, ChoiceRows
from specsim.gpu.worker.constraints import constrain_trees
from specsim.gpu.worker.ends import end_requests
from specsim.gpu.worker.graphs import Kind, bucket_for, bucket_sizes, require_graphs
from specsim.gpu.worker.pools import CARRIED, Pools, flat_ranges
from specsim.gpu.worker.prefill import prefill_target
from specsim.gpu.worker.reclaim import reclaim
from specsim.gpu.worker.stages import Setting
from specsim.gpu.worker.transfer import on_host, upload
from specsim.host.choice import TokenChoice
from specsim.host.dflash import DflashParameters
from specsim.host.truncation import Truncation
from specsim.phases import DflashDraftInput, DflashVerifyInput, Phase, VerifyOutput
from specsim.simulation.dflash import check_dflash_request
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.block import BlockModel, FeatureBatch, require_block_model
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import Model
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.worker import Iteration


class GpuDflashWorker:
    """Draft a block on borrowed slots, verify it as a chain, end requests, free what was rejected, project features.

    Draft, target forward and acceptance run as captured graphs on a GPU, eagerly elsewhere; the projection, whose
    length the host has just learnt, is always eager.

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
    Source: semantics A.14, A.14b.
    """

    name = "gpu-dflash"
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
        self._block_model = model
        self.sizes = sizes
        is_possible = DEVICE.type == "cuda" and description.is_capturable
        self.use_graphs = is_possible if use_graphs is None else use_graphs
        if self.use_graphs:
            require_graphs(description.name, description.is_capturable)
        self.device = torch.cuda.get_device_name(DEVICE) if DEVICE.type == "cuda" else "cpu (Triton interpreter)"
        widths = 1, parameters.block_size
        self._setting = Setting(
            self.config,
            model,
            Pools(description, *widths, sizes, DEVICE) if pools is None else pools.resized(*widths),
            ChoiceRows(sizes.num_rows, DEVICE, is_top_k_exact=True),
            sizes.page_size,
        )
        self._pads = pads or self.use_graphs
        self._buckets = bucket_sizes(max(sizes.num_rows - 1, 1))
        self._captured: dict[tuple[int, Kind], BlockStages] = {}
        self._graph_memory: Any = None
        self._bonus_tokens = np.zeros(sizes.num_rows, dtype=np.int64)
        self._draft_seq_lens = np.zeros(sizes.num_rows, dtype=np.int32)
        self._phases: tuple[DflashDraftInput, DflashVerifyInput, VerifyOutput, DflashDraftInput] | None = None
        if self.use_graphs:
            for size in reversed(self._buckets):
                self._captured_stages(size, Kind(self.config.num_steps, False))

    def keep_books(self, ledger: IterationLedger) -> None:
        """Take the books of the engine that drives the worker."""
        self._ledger = ledger

    def check_request(self, request: Request) -> None:
        """Refuse a request that brings a grammar or asks for log-probabilities."""
        check_dflash_request(request)

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self._setting.pools.assign_slots(upload(flat_ranges(ranges), DEVICE))

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how the tokens of joining requests are chosen."""
        self._setting.choices.assign(rows, choices)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts through the target, and make KV of their features; return the token behind each."""
        setting = self._setting
        behind = prefill_target(rows, chunks, self.model, setting.pools, setting.choices)
        features = require_present("hidden_states", behind.output.hidden_states)
        self._project(FeatureBatch(behind.positions, behind.out_cache_loc, features))
        following = [int(token) for token in behind.following.tolist()]
        self._bonus_tokens[list(rows)] = following
        self._draft_seq_lens[list(rows)] = [chunk.end for chunk in chunks]
        return following

    def decode(self, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration; a block has the positions of the parameters, whatever number of steps is asked for.

        The host waits for the device once, and once more for logits that a processor looks at.
        """
        setting, size, where = self._setting, self.parameters.block_size, list(rows)
        asked = setting.choices.asked(rows)
        borrowed = flat_ranges(self._ledger.borrow_draft_slots(1, size))
        given = self._ledger.allocate_verify_slots(size)
        assigned = flat_ranges(given)
        lengths, tokens = self._draft_seq_lens[where].copy(), self._bonus_tokens[where].copy()
        *ranges, row, seq_lens, bonus_tokens = upload([*borrowed, *assigned, rows, lengths, tokens], DEVICE)
        window = ranges[-1]
        stages = self._stages(Roots(row, seq_lens, bonus_tokens, window), asked)
        setting.pools.assign_slots(ranges[: len(borrowed)])
        stages.draft()
        setting.pools.assign_slots(ranges[len(borrowed) :])
        stages.target()
        if asked.is_constrained:
            constrain_trees(stages.output, stages.verify_input, asked.choices)
        stages.accept()
        accepted = stages.verify_output
        truncation = end_requests(accepted, len(rows), size, self._ledger, counts_only_output=True)
        page_size, scratch, pools = self.sizes.page_size, stages.scratch, setting.pools
        reclaim(
            row,
            seq_lens,
            size,
            window,
            given,
            truncation,
            1,
            page_size,
            scratch,
            pools,
            self._ledger,
            is_caught_up=True,
        )
        counts = np.array([len(appended) for appended in truncation.appended], dtype=np.int32)
        features = self._commit(where, given, truncation, accepted, counts)
        committed = DflashDraftInput(
            row, self._bonus_tokens[where], features, counts, self._draft_seq_lens[where].copy()
        )
        started_from = DflashDraftInput(row, tokens, None, np.zeros_like(counts), lengths)
        self._phases = (started_from, stages.verify_input, accepted, committed)
        return Iteration.of(truncation, size)

    def resized(self, parameters: DflashParameters) -> "GpuDflashWorker":
        """Return a worker of another block in the same maps, KV and states, with graphs of its own."""
        pools = self._setting.pools
        return type(self)(parameters, self._block_model, self.sizes, self.use_graphs, self._pads, pools)

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over, live rows only, as NumPy arrays."""
        if self._phases is None:
            return ()
        started_from, verify_input, verify_output, committed = self._phases
        live = started_from.num_requests
        return (
            on_host(started_from),
            on_host(verify_input, live),
            on_host(verify_output, live),
            on_host(committed),
        )

    def state(self) -> dict[str, Any]:
        """Return the carried state by name as NumPy arrays, roots and lengths by request row."""
        pools = {name: value for name, value in self._setting.pools.state().items() if name not in CARRIED}
        return {**pools, "seq_lens": self._draft_seq_lens.copy(), "bonus_tokens": self._bonus_tokens.copy()}

    def _commit(
        self,
        rows: list[int],
        given: Sequence[SlotRange],
        truncation: Truncation,
        accepted: VerifyOutput,
        counts: np.ndarray[Any, np.dtype[np.int32]],
    ) -> Tensor:
        """Make KV of the features of what was output, which lies at the front of each block; return these features."""
        nodes = truncation.accept_index[truncation.accept_index >= 0]
        kept = [(one.start, one.slots[:count]) for one, count in zip(given, counts.tolist(), strict=True)]
        positions = [start + place for start, slots in kept for place in range(len(slots))]
        slots = [slot for _, own in kept for slot in own]
        chosen, there, where = upload([nodes, positions, slots], DEVICE)
        features = require_present("hidden_states", accepted.hidden_states).index_select(0, chosen)
        self._project(FeatureBatch(there, where, features))
        self._bonus_tokens[rows] = [appended[-1] for appended in truncation.appended]
        self._draft_seq_lens[rows] += counts
        return features

    def _project(self, batch: FeatureBatch[Tensor]) -> None:
        """Write the draft's KV of some positions."""
        self._block_model.project_features(batch, self._setting.pools.kv[Side.DRAFT])

    def _stages(self, roots: Roots, asked: Asked) -> BlockStages:
        """Return the stages of a batch: padded to its bucket, and captured where there are graphs."""
        kind = Kind(self.config.num_steps, *asked.wants)
        if not self._pads:
            return BlockStages(self._setting, self.parameters, self._block_model, kind, roots)
        size = bucket_for(roots.num_requests, self._buckets)
        stages = self._captured_stages(size, kind) if self.use_graphs else self._padded_stages(size, kind)
        stages.load(roots)
        return stages

    def _padded_stages(self, size: int, kind: Kind) -> BlockStages:
        """Return the stages of so many padding requests, to be loaded."""
        roots = Roots.of_padding(size, self.parameters.block_size)
        return BlockStages(self._setting, self.parameters, self._block_model, kind, roots)

    def _captured_stages(self, size: int, kind: Kind) -> BlockStages:
        """Return a bucket's graphs; those that are not greedy are captured when needed."""
        if (size, kind) not in self._captured:
            stages = self._padded_stages(size, kind)
            self._graph_memory = stages.capture(self._graph_memory)
            self._captured[size, kind] = stages
        return self._captured[size, kind]
