"""The production V2 worker: EAGLE with a chain or a tree, page size 1, on Triton kernels and CUDA graphs.

It runs any model that computes on torch tensors, of which it knows what the protocol says.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from specsim import gpu
from specsim.assertion import require_present
from specsim.config import PoolSizes, SpecConfig
from specsim.gpu.arrays import DEVICE, to_numpy
from specsim.gpu.worker.compact import compact
from specsim.gpu.worker.draft import draft
from specsim.gpu.worker.extend import extend
from specsim.gpu.worker.graphs import CapturedGraph, bucket_for, bucket_sizes, capture, pad_rows
from specsim.gpu.worker.parameters import SamplingRows
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.prefill import device_array, prefill
from specsim.gpu.worker.verify import verify, verify_keys
from specsim.host.sampling import SamplingParameters
from specsim.phases import DraftExtendInput, DraftInput, Phase, VerifyInput, VerifyOutput
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.models.protocol import Model, require_model
from specsim.simulation.scheduler import SlotRange
from specsim.simulation.worker import Iteration, PromptChunk

Phases = tuple[DraftInput, VerifyInput, VerifyOutput, DraftExtendInput]


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

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: no model, one that this worker cannot run, or graphs of a model that cannot be captured;
        WRONG_DEVICE: graphs were asked for where there is no GPU.
    """

    name = "gpu"

    def __init__(
        self,
        config: SpecConfig,
        model: Model[Tensor],
        sizes: PoolSizes,
        use_graphs: bool | None = None,
        pads: bool = False,
    ) -> None:
        description = require_model(model, "torch")
        self.config = config
        self.model = model
        self.sizes = sizes
        is_possible = DEVICE.type == "cuda" and description.is_capturable
        self.use_graphs = is_possible if use_graphs is None else use_graphs
        if self.use_graphs:
            _require_graphs(description.name, description.is_capturable)
        self.device = torch.cuda.get_device_name(DEVICE) if DEVICE.type == "cuda" else "cpu (Triton interpreter)"
        self._pools = Pools(description, config.topk, config.num_draft_tokens, sizes, DEVICE)
        hot = description.hot_token_id
        self._hot_token_id = None if hot is None else device_array(hot, DEVICE)
        self._pads = pads or self.use_graphs
        self._buckets = bucket_sizes(max(sizes.num_rows - 1, 1))
        self._sampling = SamplingRows(sizes.num_rows, DEVICE)
        self._graphs: dict[tuple[int, bool], CapturedGraph] = {}
        self._phases: Phases | None = None
        self._num_live = 0
        if self.use_graphs:
            self._capture_all()

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        gpu.assign_req_to_token_pool(
            device_array([given.row for given in ranges], DEVICE),
            self._pools.req_to_token,
            device_array([given.start for given in ranges], DEVICE),
            device_array([given.end for given in ranges], DEVICE),
            device_array([slot for given in ranges for slot in given.slots], DEVICE),
        )

    def assign_sampling(self, rows: Sequence[int], parameters: Sequence[SamplingParameters | None]) -> None:
        """Keep how joining requests are sampled."""
        self._sampling.assign(rows, parameters)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts through target and draft; return the token behind each."""
        phase = prefill(rows, chunks, self.config.topk, self.model, self._pools, self._sampling)
        self._pools.stash(phase)
        return [int(token) for token in phase.bonus_tokens.tolist()]

    def decode(self, rows: Sequence[int]) -> Iteration:
        """Run one iteration and bring its tokens and counts to the host."""
        self.launch(rows)
        extend_input = require_present("phases of an iteration", self._phases)[3]
        live, width = len(rows), self.config.num_draft_tokens
        return Iteration(
            tokens=to_numpy(extend_input.input_ids[: live * width].int()).reshape(live, width),
            num_accepted_drafts=to_numpy(extend_input.num_accepted_drafts[:live]),
            num_accepted_tokens=to_numpy(extend_input.num_accepted_tokens[:live]),
        )

    def launch(self, rows: Sequence[int]) -> None:
        """Queue one iteration on the device without waiting for it."""
        self._num_live = len(rows)
        is_sampled = self._sampling.has_sampled(rows)
        if not rows:
            self._phases = self.iterate(device_array([], DEVICE))
            return
        size = bucket_for(len(rows), self._buckets) if self._pads else len(rows)
        padded = pad_rows(rows, size)
        if not self.use_graphs:
            self._phases = self.iterate(padded.to(DEVICE), is_sampled)
            return
        captured = self._graph(size, is_sampled)
        captured.rows.copy_(padded.pin_memory(), non_blocking=True)
        captured.graph.replay()
        self._phases = captured.outputs

    def rewinder(self) -> Callable[[], None]:
        """Return a function that brings the lengths back to what they are now, to run one iteration many times."""
        saved = self._pools.seq_lens.clone()

        def rewind() -> None:
            self._pools.seq_lens.copy_(saved)

        return rewind

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over, live rows only, as NumPy arrays."""
        return tuple(_on_host(phase, self._num_live) for phase in self._phases or ())

    def state(self) -> dict[str, Any]:
        """Return the carried state by name, as NumPy arrays."""
        return self._pools.state()

    def iterate(self, rows: Tensor, is_sampled: bool = False) -> Phases:
        """Run one iteration eagerly on int64 [request] rows, padding 0, without a host synchronisation.

        Everything here can be captured: sizes come from the batch and the configuration, lengths are tensors.
        """
        config, model, pools = self.config, self.model, self._pools
        is_chain, sampling = config.topk == 1, self._sampling if is_sampled else None
        draft_input = pools.draft_input(rows)
        verify_input = draft(draft_input, config, model, pools, self._hot_token_id)
        keys = verify_keys(rows, verify_input, pools)
        verify_output, scratch = verify(rows, verify_input, keys, config.num_steps, model, pools, sampling)
        extend_input = compact(rows, verify_input, verify_output, is_chain, config.num_steps, pools, scratch)
        pools.stash(extend(rows, verify_input, verify_output, extend_input, keys, config.topk, model, pools))
        return draft_input, verify_input, verify_output, extend_input

    def _capture_all(self) -> None:
        """Capture the greedy graph of every bucket, the largest first."""
        for size in reversed(self._buckets):
            self._graph(size, False)

    def _graph(self, size: int, is_sampled: bool) -> CapturedGraph:
        """Return a bucket's graph; the sampled ones are captured when they are first needed."""
        if (size, is_sampled) not in self._graphs:
            pool = next((one.graph.pool() for one in self._graphs.values()), None)
            self._graphs[size, is_sampled] = capture(partial(self.iterate, is_sampled=is_sampled), size, DEVICE, pool)
        return self._graphs[size, is_sampled]


def _require_graphs(name: str, is_capturable: bool) -> None:
    """Raise unless graphs can be captured here."""
    if not is_capturable:
        raise SpecRejection(
            Reason.BAD_CONFIGURATION,
            what="use_graphs",
            got=True,
            expected="False",
            because=f"forwards of {name} cannot be captured, says its description",
        )
    if DEVICE.type != "cuda":
        raise SpecRejection(
            Reason.WRONG_DEVICE,
            what="use_graphs",
            got=True,
            expected="False",
            because="there is no GPU to capture on",
        )


def _on_host(phase: Phase, num_live: int) -> Phase:
    """Copy a phase object to the host and cut padded requests off every array."""
    changed: dict[str, Any] = {}
    for field in fields(phase):
        value = getattr(phase, field.name)
        if isinstance(value, torch.Tensor):
            batch = phase.num_requests
            per_request = value.shape[0] // batch if batch else 0
            changed[field.name] = to_numpy(value[: num_live * per_request])
    return replace(phase, **changed)
