"""The production V1 worker: EAGLE with a chain or a tree, on pages of any size, slots freed inside verify.

The fallback where the rules do not allow V2. Its state lies on the device; the host waits for it once an iteration, to
see what was accepted, and then ends requests and frees slots. What it decides goes back without waiting.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specsim.assertion import require
from specsim.config import PoolSizes, SpecConfig
from specsim.gpu.arrays import DEVICE, to_numpy
from specsim.gpu.worker.carried import Carried
from specsim.gpu.worker.choices import ChoiceRows
from specsim.gpu.worker.constraints import constrain_trees
from specsim.gpu.worker.ends import end_requests
from specsim.gpu.worker.extend import collect_extend_input, prepare_extend_after_decode
from specsim.gpu.worker.graphs import Kind, bucket_for, bucket_sizes, require_graphs
from specsim.gpu.worker.logprobs import Scored, score, told_by
from specsim.gpu.worker.pools import CARRIED, Pools, flat_ranges
from specsim.gpu.worker.prefill import device_array, prefill_target
from specsim.gpu.worker.reclaim import reclaim
from specsim.gpu.worker.sides import MakeSide, StepwiseSide
from specsim.gpu.worker.stages import Setting, Stages
from specsim.gpu.worker.transfer import on_host, upload
from specsim.host.choice import TokenChoice
from specsim.phases import DraftInput, EagleDraftExtendInput, Phase, VerifyInput, VerifyOutput
from specsim.simulation.logprobs import Told, alone
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.moving import require_moves, sides_that_move
from specsim.simulation.models.protocol import Model
from specsim.simulation.requests import PromptChunk
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.worker import Iteration

Phases = tuple[DraftInput, VerifyInput, VerifyOutput, EagleDraftExtendInput]


class GpuWorkerV1:
    """Borrow draft slots, draft, verify, end requests, free what was rejected, extend.

    Draft, target forward and acceptance run as captured graphs on a GPU, eagerly elsewhere; the extend, whose length
    the host has just learnt, is always eager.

    Parameters
    ----------
    config : SpecConfig
        Branching factor, depth and width of the trees.
    model : Model
        Target and draft, on torch tensors.
    sizes : PoolSizes
        Slots, rows and row width.
    use_graphs : bool, optional
        Capture and replay; by default wherever there is a GPU and the model can be captured.
    pads : bool
        Pad batches to buckets in eager mode too; graphs always do.
    has_dp_attention : bool
        Other ranks wait for the forwards of this one, so that the extend runs without requests too.
    pools : Pools or None
        Those of another worker, whose maps, KV and states this one goes on in; None for pools of its own.
    make_side : callable
        Makes what drafts.
    name : str
        What reports call it.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: no model, one that this worker cannot run, or graphs of a model that cannot be captured;
        NO_MOVE: a model whose KV would have to move, and cannot; WRONG_DEVICE: graphs were asked for where there is no
        GPU.

    Notes
    -----
    Source: semantics J.1.
    """

    def __init__(
        self,
        config: SpecConfig,
        model: Model[Tensor],
        sizes: PoolSizes,
        use_graphs: bool | None = None,
        pads: bool = False,
        has_dp_attention: bool = False,
        pools: Pools | None = None,
        make_side: MakeSide = StepwiseSide.of,
        name: str = "gpu-v1",
    ) -> None:
        self._make_side = make_side
        self._side = make_side(model, config, sizes, has_dp_attention)
        facts, description = self._side.facts, self._side.facts.description
        require_moves(description, sides_that_move(config.topk, sizes.page_size, is_v1=True))
        self.name = name
        self.has_plain_keys = not facts.catches_up
        self.config = config
        self.model = model
        self.sizes = sizes
        self.has_dp_attention = has_dp_attention
        is_possible = DEVICE.type == "cuda" and description.is_capturable
        self.use_graphs = is_possible if use_graphs is None else use_graphs
        if self.use_graphs:
            require_graphs(description.name, description.is_capturable)
        self.device = torch.cuda.get_device_name(DEVICE) if DEVICE.type == "cuda" else "cpu (Triton interpreter)"
        widths = facts.num_candidates, config.num_draft_tokens
        self._setting = Setting(
            config,
            model,
            Pools(description, *widths, sizes, DEVICE) if pools is None else pools.resized(*widths),
            ChoiceRows(sizes.num_rows, DEVICE),
            sizes.page_size,
            self._side,
        )
        self._pads = pads or self.use_graphs
        self._buckets = bucket_sizes(max(sizes.num_rows - 1, 1))
        self._captured: dict[tuple[int, Kind], Stages] = {}
        self._graph_memory: Any = None
        self._idle = Carried.idle(facts)
        self._carried = self._joining = self._idle
        self._phases: Phases | None = None
        self._scored: tuple[Scored | None, int] = None, 0
        if self.use_graphs:
            for size in reversed(self._buckets):
                self._captured_stages(size, Kind(config.num_steps, False))

    def keep_books(self, ledger: IterationLedger) -> None:
        """Take the books of the engine that drives the worker."""
        self._ledger = ledger

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self._setting.pools.assign_slots(upload(flat_ranges(ranges), DEVICE))

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how the tokens of joining requests are chosen."""
        self._setting.choices.assign(rows, choices)
        self._side.join(rows)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts through target and draft; return the token behind each."""
        setting = self._setting
        behind = prefill_target(rows, chunks, self.model, setting.pools, setting.choices)
        phase = self._side.prefill(behind, setting.pools)
        paths = device_array(alone(len(rows)), DEVICE, torch.int32)
        self._scored = (
            score(behind.asked, behind.row, behind.output, paths, phase.bonus_tokens, setting.choices),
            len(rows),
        )
        still_there = [row for row in self._joining.rows if row not in rows]
        self._joining = self._joining.keep(still_there).joined_by(Carried(tuple(rows), phase))
        return [int(token) for token in phase.bonus_tokens.tolist()]

    def decode(self, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration; the host waits for the device once, and once more for trees that a grammar looks at."""
        config, setting = self.config.at_steps(num_steps), self._setting
        asked = setting.choices.asked(rows)
        draft_input = self._form_batch(rows)
        borrowed = self._borrow(config)
        given = self._ledger.allocate_verify_slots(config.num_draft_tokens)
        uploaded = upload([*borrowed, *flat_ranges(given)], DEVICE)
        window, kind = uploaded[-1], Kind(config.num_steps, *asked.wants)
        stages = self._stages(draft_input, window, kind)
        if borrowed:
            setting.pools.assign_slots(uploaded[: len(borrowed)])
        stages.draft()
        setting.pools.assign_slots(uploaded[len(borrowed) :])
        stages.target()
        if asked.is_constrained:
            constrain_trees(stages.output, stages.verify_input, asked.choices)
        stages.accept()
        accepted = stages.verify_output
        scored = score(
            asked,
            draft_input.req_pool_indices,
            stages.output,
            accepted.accept_index,
            accepted.predict,
            setting.choices,
        )
        self._scored = scored, len(rows)
        truncation = end_requests(stages.verify_output, len(rows), config.num_draft_tokens, self._ledger)
        kept = reclaim(
            draft_input.req_pool_indices,
            draft_input.seq_lens,
            config.num_draft_tokens,
            window,
            given,
            truncation,
            config.topk,
            self.sizes.page_size,
            stages.scratch,
            setting.pools,
            self._ledger,
            is_caught_up=not self._side.facts.catches_up,
        )
        collected = collect_extend_input(draft_input.req_pool_indices, stages.verify_output, kept)
        extend_input = self._side.to_extend_input(collected)
        unfinished = [row for row, finish in zip(rows, truncation.finishes, strict=True) if finish is None]
        self._carried = self._extend(unfinished, extend_input, config.num_steps)
        self._phases = (draft_input, stages.verify_input, stages.verify_output, extend_input)
        return Iteration.of(truncation, config.num_draft_tokens)

    def resized(self, config: SpecConfig) -> "GpuWorkerV1":
        """Return a worker of other sizes in the same maps, KV and states, with graphs and an empty batch of its own."""
        return type(self)(
            config,
            self.model,
            self.sizes,
            self.use_graphs,
            self._pads,
            self.has_dp_attention,
            self._setting.pools,
            self._make_side,
            self.name,
        )

    def told(self) -> Told:
        """Return what is told of the tokens of the last prefill or iteration."""
        return told_by(*self._scored)

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over, live rows only, as NumPy arrays."""
        if self._phases is None:
            return ()
        draft_input, verify_input, verify_output, extend_input = self._phases
        live = draft_input.num_requests
        return (
            on_host(draft_input),
            on_host(verify_input, live),
            on_host(verify_output, live),
            on_host(extend_input),
        )

    def state(self) -> dict[str, Any]:
        """Return the carried state by name as NumPy arrays, the fields of the draft input by request row."""
        carried = {}
        for name in CARRIED:
            values = [getattr(one.phase, name) for one in (self._carried, self._joining)]
            if values[0] is None:
                continue
            first = to_numpy(values[0])
            carried[name] = np.zeros((self.sizes.num_rows, *first.shape[1:]), dtype=first.dtype)
            for one, given in zip((self._carried, self._joining), values, strict=True):
                carried[name][list(one.rows)] = to_numpy(given)
        return {**self._setting.pools.state(), **carried, **self._side.state()}

    def _borrow(self, config: SpecConfig) -> list[list[int]]:
        """Return what is written into the map for a draft that has slots of its own; nothing for any other."""
        if not self._side.facts.borrows:
            return []
        return flat_ranges(self._ledger.borrow_draft_slots(config.topk, config.num_steps))

    def _form_batch(self, rows: Sequence[int]) -> DraftInput:
        """Let those requests leave that ended or were retracted, and those join that were prefilled.

        Verify has dropped the ended ones already. A row that was prefilled since belongs to whoever joins with it.
        """
        joining = [row for row in rows if row in self._joining.rows]
        staying = [row for row in rows if row in self._carried.rows and row not in joining]
        carried = self._carried.keep(staying, len(staying) == len(self._carried.rows))
        self._carried = carried.joined_by(self._joining.keep(joining))
        self._joining = self._idle
        require(self._carried.rows == tuple(rows), "rows of the batch", self._carried.rows, tuple(rows))
        return self._carried.phase

    def _stages(self, phase: DraftInput, window: Tensor, kind: Kind) -> Stages:
        """Return the stages of a batch: padded to its bucket, and captured where there are graphs."""
        live = phase.num_requests
        if not self._pads or not live:
            return Stages(self._setting, kind, phase, window)
        size = bucket_for(live, self._buckets)
        stages = self._captured_stages(size, kind) if self.use_graphs else Stages.of_padding(self._setting, kind, size)
        stages.load(phase, window)
        return stages

    def _captured_stages(self, size: int, kind: Kind) -> Stages:
        """Return a bucket's graphs; those that are not greedy and as deep as configured are captured when needed."""
        if (size, kind) not in self._captured:
            stages = Stages.of_padding(self._setting, kind, size)
            self._graph_memory = stages.capture(self._graph_memory)
            self._captured[size, kind] = stages
        return self._captured[size, kind]

    def _extend(self, rows: Sequence[int], phase: EagleDraftExtendInput, num_steps: int) -> Carried:
        """Return what starts the next draft of the requests that go on; without any, an idle input that can merge."""
        if not rows and not self.has_dp_attention:
            return self._idle
        prepared = prepare_extend_after_decode(phase, num_steps)
        return Carried(tuple(rows), self._side.extend_ragged(prepared, self._setting.pools))
