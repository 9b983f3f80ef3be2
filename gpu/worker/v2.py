"""The production V2 worker: EAGLE with a chain or a tree, page size 1, on Triton kernels and CUDA graphs."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from specsim import gpu
from specsim.assertion import require_present
from specsim.config import PoolSizes, SpecConfig
from specsim.gpu.arrays import DEVICE, to_numpy
from specsim.gpu.worker.graphs import CapturedGraph, bucket_for, bucket_sizes, capture, pad_rows
from specsim.gpu.worker.iteration import DeviceState, Phases, load_model, run_iteration
from specsim.gpu.worker.sampling import DeviceSampling
from specsim.host.sampling import SamplingParameters
from specsim.phases import Phase
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.models.language_models import LanguageModel
from specsim.simulation.scheduler import SlotRange
from specsim.simulation.worker import Iteration


class GpuWorker:
    """Decode iterations as captured graphs on a GPU, eagerly elsewhere.

    Parameters
    ----------
    config : SpecConfig
        Branching factor, depth and width of the trees.
    model : LanguageModel
        Target and draft.
    sizes : PoolSizes
        Slots, rows and row width.
    use_graphs : bool, optional
        Capture and replay; by default wherever there is a GPU.
    pads : bool
        Pad batches to buckets in eager mode too; graphs always do.

    Raises
    ------
    SpecRejection
        WRONG_DEVICE: graphs were asked for where there is no GPU.
    """

    name = "gpu"

    def __init__(
        self,
        config: SpecConfig,
        model: LanguageModel,
        sizes: PoolSizes,
        use_graphs: bool | None = None,
        pads: bool = False,
    ) -> None:
        self.config = config
        self.model = model
        self.sizes = sizes
        self.use_graphs = DEVICE.type == "cuda" if use_graphs is None else use_graphs
        if self.use_graphs and DEVICE.type != "cuda":
            raise SpecRejection(
                Reason.WRONG_DEVICE,
                what="use_graphs",
                got=True,
                expected="False",
                because="there is no GPU to capture on",
            )
        self.device = torch.cuda.get_device_name(DEVICE) if DEVICE.type == "cuda" else "cpu (Triton interpreter)"
        self._state = DeviceState(config, model, sizes, DEVICE)
        self._model = load_model(model, DEVICE)
        self._pads = pads or self.use_graphs
        self._buckets = bucket_sizes(max(sizes.num_rows - 1, 1))
        self._sampling = DeviceSampling(sizes.num_rows, DEVICE)
        self._graphs: dict[tuple[int, bool], CapturedGraph] = {}
        self._phases: Phases | None = None
        self._num_live = 0
        if self.use_graphs:
            self._capture_all()

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        gpu.assign_req_to_token_pool(
            _device_array([given.row for given in ranges]),
            self._state.req_to_token,
            _device_array([given.start for given in ranges]),
            _device_array([given.end for given in ranges]),
            _device_array([slot for given in ranges for slot in given.slots]),
        )

    def assign_sampling(self, rows: Sequence[int], parameters: Sequence[SamplingParameters | None]) -> None:
        """Keep how joining requests are sampled."""
        self._sampling.assign(rows, parameters)

    def prefill(self, rows: Sequence[int], prompts: Sequence[Sequence[int]]) -> list[int]:
        """Run the prompts of new requests through target and draft; return the first output tokens."""
        state = self._state
        row = _device_array(rows)
        lengths = np.array([len(prompt) for prompt in prompts], dtype=np.int32)
        ends = np.cumsum(lengths)
        total = int(ends[-1])
        seq_lens = _device_array(lengths)
        input_ids = _device_array([token for prompt in prompts for token in prompt])
        positions = torch.cat([torch.arange(length, device=DEVICE) for length in lengths.tolist()])
        out_cache_loc = gpu.assign_extend_cache_locs(
            row, state.req_to_token, torch.zeros_like(seq_lens), seq_lens, total
        )
        page_table = state.req_to_token.index_select(0, row)[:, : int(lengths.max())]
        cu_seqlens_q = _device_array(np.concatenate([[0], ends]).astype(np.int32))
        layout = (positions, out_cache_loc, page_table, _device_array(lengths, torch.int32), cu_seqlens_q.int())
        hidden_states = gpu.target_forward(state.target_kv, input_ids, *layout)
        last = _device_array(ends - 1)
        first_tokens = self._model.target_predict(hidden_states.index_select(0, last))
        if self._sampling.has_sampled(rows):
            logits = self._model.logits_for_sampling(hidden_states.index_select(0, last))
            first_tokens = self._sampling.first_tokens(row, seq_lens, logits, first_tokens)
        rotated = gpu.rotate_prefill_input_ids(input_ids, _device_array(lengths, torch.int32), first_tokens)
        next_hidden_states, context = gpu.draft_extend_forward(state.draft_kv, rotated, hidden_states, *layout)
        next_hidden_states = next_hidden_states.index_select(0, last)
        probabilities = self._model.propose(next_hidden_states, context.index_select(0, last), 1)
        proposal = gpu.fast_topk(probabilities, self.config.topk)
        state.stash(row, seq_lens, first_tokens.int(), proposal, next_hidden_states)
        return [int(token) for token in first_tokens.tolist()]

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
            self._phases = self.iterate(_device_array([]))
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
        saved = self._state.seq_lens.clone()

        def rewind() -> None:
            self._state.seq_lens.copy_(saved)

        return rewind

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over, live rows only, as NumPy arrays."""
        return tuple(_on_host(phase, self._num_live) for phase in self._phases or ())

    def state(self) -> dict[str, Any]:
        """Return the carried state by name, as NumPy arrays."""
        return {
            name: [to_numpy(buffer) for buffer in value] if isinstance(value, tuple | list) else to_numpy(value)
            for name, value in vars(self._state).items()
        }

    def iterate(self, rows: torch.Tensor, is_sampled: bool = False) -> Phases:
        """Run one iteration eagerly on int64 [request] rows, without a host synchronisation."""
        return run_iteration(rows, self.config, self._model, self._state, self._sampling if is_sampled else None)

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


def _device_array(values: Any, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.as_tensor(np.asarray(values), dtype=dtype).to(DEVICE)


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
