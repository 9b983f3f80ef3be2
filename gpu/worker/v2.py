"""The production V2 worker: EAGLE with a chain or a tree, on pages of any size, on Triton kernels and CUDA graphs.

It runs any model that computes on torch tensors, of which it knows what the protocol says.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from specsim.assertion import require_present
from specsim.config import PoolSizes, SpecConfig
from specsim.gpu.arrays import DEVICE, to_numpy
from specsim.gpu.worker.choices import Asked, ChoiceRows
from specsim.gpu.worker.compact import compact
from specsim.gpu.worker.constraints import constrain_trees
from specsim.gpu.worker.graphs import (
    CapturedGraph,
    Kind,
    bucket_for,
    bucket_sizes,
    capture,
    pad_rows,
    require_graphs,
)
from specsim.gpu.worker.logprobs import Scored, score, told_by
from specsim.gpu.worker.pools import Buffers, Pools, flat_ranges
from specsim.gpu.worker.prefill import device_array, prefill_target
from specsim.gpu.worker.sides import MakeSide, StepwiseSide
from specsim.gpu.worker.transfer import on_host
from specsim.gpu.worker.verify import run_target, verify, verify_keys
from specsim.host.choice import TokenChoice
from specsim.phases import DraftExtendInput, DraftInput, Phase, VerifyInput, VerifyOutput
from specsim.simulation.logprobs import Told, alone
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.batches import PagedKeys, TargetOutput
from specsim.simulation.models.moving import require_moves, sides_that_move
from specsim.simulation.models.protocol import Model
from specsim.simulation.requests import PromptChunk
from specsim.simulation.worker import Iteration

Phases = tuple[DraftInput, VerifyInput, VerifyOutput, DraftExtendInput]


@dataclass(frozen=True)
class Middle:
    """What lies between the forward of the target and the decision: the trees, the logits, and the state of nodes."""

    draft_input: DraftInput
    verify_input: VerifyInput
    keys: PagedKeys[Tensor]
    output: TargetOutput[Tensor]
    scratch: Buffers


class GpuWorker:
    """Decode iterations as captured graphs on a GPU, eagerly elsewhere.

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
    """

    def __init__(
        self,
        config: SpecConfig,
        model: Model[Tensor],
        sizes: PoolSizes,
        use_graphs: bool | None = None,
        pads: bool = False,
        pools: Pools | None = None,
        make_side: MakeSide = StepwiseSide.of,
        name: str = "gpu",
    ) -> None:
        self._make_side = make_side
        self._side = make_side(model, config, sizes, False)
        description = self._side.facts.description
        require_moves(description, sides_that_move(config.topk, sizes.page_size, is_v1=False))
        self.name = name
        self.has_plain_keys = not self._side.facts.catches_up
        self.config = config
        self.model = model
        self.sizes = sizes
        is_possible = DEVICE.type == "cuda" and description.is_capturable
        self.use_graphs = is_possible if use_graphs is None else use_graphs
        if self.use_graphs:
            require_graphs(description.name, description.is_capturable)
        self.device = torch.cuda.get_device_name(DEVICE) if DEVICE.type == "cuda" else "cpu (Triton interpreter)"
        widths = self._side.facts.num_candidates, config.num_draft_tokens
        self._pools = Pools(description, *widths, sizes, DEVICE) if pools is None else pools.resized(*widths)
        self._pads = pads or self.use_graphs
        self._buckets = bucket_sizes(max(sizes.num_rows - 1, 1))
        self._choices = ChoiceRows(sizes.num_rows, DEVICE)
        self._graphs: dict[tuple[int, Kind], CapturedGraph] = {}
        self._split_graphs: dict[tuple[int, Kind], tuple[CapturedGraph, CapturedGraph]] = {}
        self._phases: Phases | None = None
        self._num_live = 0
        self._scored: tuple[Scored | None, int] = None, 0
        if self.use_graphs:
            self._capture_all()

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self._pools.assign_slots([device_array(numbers, DEVICE) for numbers in flat_ranges(ranges)])

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how the tokens of joining requests are chosen."""
        self._choices.assign(rows, choices)
        self._side.join(rows)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts through target and draft; return the token behind each."""
        behind = prefill_target(rows, chunks, self.model, self._pools, self._choices)
        phase = self._side.prefill(behind, self._pools)
        self._pools.stash(phase)
        paths = device_array(alone(len(rows)), DEVICE, torch.int32)
        scored = score(behind.asked, behind.row, behind.output, paths, phase.bonus_tokens, self._choices)
        self._scored = scored, len(rows)
        return [int(token) for token in phase.bonus_tokens.tolist()]

    def decode(self, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration and bring its tokens and counts to the host."""
        self.launch(rows, num_steps)
        live, width = len(rows), self.config.at_steps(num_steps).num_draft_tokens
        extend_input = require_present("phases", self._phases)[3]
        return Iteration(
            tokens=to_numpy(extend_input.input_ids[: live * width].int()).reshape(live, width),
            num_accepted_drafts=to_numpy(extend_input.num_accepted_drafts[:live]),
            num_accepted_tokens=to_numpy(extend_input.num_accepted_tokens[:live]),
        )

    def launch(self, rows: Sequence[int], num_steps: int | None = None) -> None:
        """Queue one iteration on the device without waiting for it.

        A request with a processor or a grammar lets the batch wait for its logits in the middle.
        """
        self._num_live = len(rows)
        asked = self._choices.asked(rows)
        kind = Kind(self.config.at_steps(num_steps).num_steps, *asked.wants)
        size = bucket_for(len(rows), self._buckets) if self._pads and rows else len(rows)
        padded = pad_rows(rows, size)
        self._scored = None, len(rows)
        if self.use_graphs and rows:
            self._phases = self._replay(padded, kind, asked)
            return
        device_rows = padded.to(DEVICE)
        middle = self._start(device_rows, kind)
        if asked.is_constrained:
            constrain_trees(middle.output, middle.verify_input, asked.choices)
        self._phases = self._finish(device_rows, kind, middle)
        self._score(device_rows, middle, asked)

    def resized(self, config: SpecConfig) -> "GpuWorker":
        """Return a worker of other sizes in the same maps, KV and states, with graphs of its own."""
        return type(self)(
            config, self.model, self.sizes, self.use_graphs, self._pads, self._pools, self._make_side, self.name
        )

    def rewinder(self) -> Callable[[], None]:
        """Return a function that brings the lengths back to what they are now, to run one iteration many times."""
        saved = self._pools.seq_lens.clone()

        def rewind() -> None:
            self._pools.seq_lens.copy_(saved)

        return rewind

    def told(self) -> Told:
        """Return what is told of the tokens of the last prefill or iteration."""
        return told_by(*self._scored)

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over, live rows only, as NumPy arrays."""
        return tuple(on_host(phase, self._num_live) for phase in self._phases or ())

    def state(self) -> dict[str, Any]:
        """Return the carried state by name, as NumPy arrays."""
        return {**self._pools.state(), **self._side.state()}

    def iterate(self, rows: Tensor, kind: Kind | None = None) -> Phases:
        """Run one iteration eagerly on int64 [request] rows, padding 0, without a host synchronisation.

        Everything here can be captured: sizes come from the batch and the configuration, lengths are tensors.
        """
        kind = kind or Kind(self.config.num_steps, False)
        return self._finish(rows, kind, self._start(rows, kind))

    def _start(self, rows: Tensor, kind: Kind) -> Middle:
        """Draft, and run the target over the trees."""
        model, pools, config = self.model, self._pools, self.config.at_steps(kind.num_steps)
        draft_input = pools.draft_input(rows)
        window = partial(pools.read_slots, rows, draft_input.seq_lens, config.num_draft_tokens)
        verify_input = self._side.draft(draft_input, config, pools, window)
        keys = verify_keys(rows, verify_input, pools)
        output, scratch = run_target(rows, verify_input, keys, model, pools, *kind.wants)
        return Middle(draft_input, verify_input, keys, output, scratch)

    def _finish(self, rows: Tensor, kind: Kind, middle: Middle) -> Phases:
        """Accept, bring the accepted paths to the front, and let the draft catch up."""
        pools, verify_input, is_chain = self._pools, middle.verify_input, self.config.topk == 1
        choices, rules = self._choices.deciding(kind.is_sampled, kind.has_rules)
        verify_output = verify(rows, verify_input, middle.output, kind.num_steps, choices, rules)
        extend_input = compact(rows, verify_input, verify_output, is_chain, kind.num_steps, pools, middle.scratch)
        pools.stash(self._side.extend(rows, verify_input, verify_output, extend_input, middle.keys, pools))
        return middle.draft_input, verify_input, verify_output, extend_input

    def _score(self, device_rows: Tensor, middle: Middle, asked: Asked) -> None:
        """Queue what live requests are told of the tokens that were accepted last."""
        output = require_present("phases", self._phases)[2]
        scored = score(asked, device_rows, middle.output, output.accept_index, output.predict, self._choices)
        self._scored = scored, len(asked.choices)

    def _replay(self, padded: Tensor, kind: Kind, asked: Asked) -> Phases:
        """Replay one graph, or two around what the host does to the logits, or where it goes on from them."""
        host_rows = padded.pin_memory()
        if not asked.is_constrained and not asked.is_told:
            captured = self._graph(len(padded), kind)
            captured.rows.copy_(host_rows, non_blocking=True)
            captured.graph.replay()
            return cast(Phases, captured.outputs)
        start, finish = self._halves(len(padded), kind)
        start.rows.copy_(host_rows, non_blocking=True)
        start.graph.replay()
        if asked.is_constrained:
            constrain_trees(start.outputs.output, start.outputs.verify_input, asked.choices)
        finish.graph.replay()
        self._phases = cast(Phases, finish.outputs)
        self._score(start.rows, start.outputs, asked)
        return self._phases

    def _capture_all(self) -> None:
        """Capture the greedy graph of every bucket, the largest first."""
        for size in reversed(self._buckets):
            self._graph(size, Kind(self.config.num_steps, False))

    def _graph(self, size: int, kind: Kind) -> CapturedGraph:
        """Return a bucket's graph; those that are not greedy and as deep as configured are captured when needed."""
        if (size, kind) not in self._graphs:
            self._graphs[size, kind] = self._capture(partial(self.iterate, kind=kind), _padding_rows(size))
        return self._graphs[size, kind]

    def _halves(self, size: int, kind: Kind) -> tuple[CapturedGraph, CapturedGraph]:
        """Return a bucket's two graphs, captured when they are first needed; they share rows and what lies between."""
        if (size, kind) not in self._split_graphs:
            rows = _padding_rows(size)
            start = self._capture(partial(self._start, kind=kind), rows)
            # NOTE: a capture runs nothing, and the warm-up of the second half reads what the first one leaves.
            start.graph.replay()
            finish = self._capture(partial(self._finish, kind=kind, middle=start.outputs), rows)
            self._split_graphs[size, kind] = (start, finish)
        return self._split_graphs[size, kind]

    def _capture(self, iterate: Callable[[Tensor], Any], rows: Tensor) -> CapturedGraph:
        """Capture a function of rows into the memory that all graphs of the worker share."""
        known = [*self._graphs.values(), *(start for start, _ in self._split_graphs.values())]
        return capture(iterate, rows, DEVICE, known[0].graph.pool() if known else None)


def _padding_rows(size: int) -> Tensor:
    return torch.zeros(size, dtype=torch.int64, device=DEVICE)
