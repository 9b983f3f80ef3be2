"""The production V1 worker of NGRAM: drafts come from a store on the host, everything else lies on the device.

The host waits for the device once an iteration, to see what was accepted. What the store and the ends of requests
decide goes up without waiting, and while the device moves what is kept, the store takes in what was said.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specsim.assertion import require
from specsim.config import PoolSizes
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.choices import ChoiceRows
from specsim.gpu.worker.constraints import constrain
from specsim.gpu.worker.ends import end_requests
from specsim.gpu.worker.graphs import Kind, bucket_for, bucket_sizes, require_graphs
from specsim.gpu.worker.logprobs import Scored, score, told_by
from specsim.gpu.worker.pools import CARRIED, Pools, flat_ranges
from specsim.gpu.worker.prefill import device_array, prefill_target
from specsim.gpu.worker.reclaim import reclaim
from specsim.gpu.worker.stages import Setting
from specsim.gpu.worker.transfer import on_host, send, upload
from specsim.gpu.worker.trees import GrownTrees, TreeStages
from specsim.host.choice import TokenChoice
from specsim.host.ngram import NgramParameters, NgramStore
from specsim.phases import Phase, VerifyInput, VerifyOutput
from specsim.simulation.logprobs import Told, alone
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.description import Side
from specsim.simulation.models.moving import require_moves
from specsim.simulation.models.protocol import Model, require_model
from specsim.simulation.ngram import BRANCHES, last_tokens
from specsim.simulation.requests import PromptChunk
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.worker import Iteration


class GpuNgramWorker:
    """Match, verify, end requests, free what was rejected, insert.

    The links of the trees, the target's forward and acceptance run as captured graphs on a GPU, eagerly elsewhere.

    Parameters
    ----------
    parameters : NgramParameters
        The store, and the number of nodes of a draft.
    model : Model
        Its target, on torch tensors; its draft is never asked.
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
        NO_MOVE: a model whose KV would have to move, and cannot; WRONG_DEVICE: graphs were asked for where there is no
        GPU.

    Notes
    -----
    Source: semantics A.13, A.13b.
    """

    name = "gpu-ngram"

    def __init__(
        self,
        parameters: NgramParameters,
        model: Model[Tensor],
        sizes: PoolSizes,
        use_graphs: bool | None = None,
        pads: bool = False,
    ) -> None:
        description = require_model(model, "torch")
        require_moves(description, (Side.TARGET,) if sizes.page_size > 1 else ())
        self.parameters = parameters
        self.config = parameters.config
        self.model = model
        self.sizes = sizes
        is_possible = DEVICE.type == "cuda" and description.is_capturable
        self.use_graphs = is_possible if use_graphs is None else use_graphs
        if self.use_graphs:
            require_graphs(description.name, description.is_capturable)
        self.device = torch.cuda.get_device_name(DEVICE) if DEVICE.type == "cuda" else "cpu (Triton interpreter)"
        own = tuple(one for one in description.kv_components if one.side is Side.TARGET)
        self._setting = Setting(
            self.config,
            model,
            Pools(replace(description, kv_components=own), 1, parameters.num_draft_tokens, sizes, DEVICE),
            ChoiceRows(sizes.num_rows, DEVICE),
            None,
            sizes.page_size,
        )
        self.store = NgramStore(parameters)
        self._pads = pads or self.use_graphs
        self._buckets = bucket_sizes(max(sizes.num_rows - 1, 1))
        self._captured: dict[tuple[int, Kind], TreeStages] = {}
        self._graph_memory: Any = None
        self._phases: tuple[VerifyInput, VerifyOutput] | None = None
        self._scored: tuple[Scored | None, int] = None, 0
        if self.use_graphs:
            for size in reversed(self._buckets):
                self._captured_stages(size, Kind(self.config.num_steps, False))

    def keep_books(self, ledger: IterationLedger) -> None:
        """Take the books of the engine that drives the worker."""
        self._ledger = ledger

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self._setting.pools.assign_slots(upload(flat_ranges(ranges), DEVICE))

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how the tokens of joining requests are chosen."""
        self._setting.choices.assign(rows, choices)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts through the target; return the token behind each."""
        setting = self._setting
        behind = prefill_target(rows, chunks, self.model, setting.pools, setting.choices)
        paths = device_array(alone(len(rows)), DEVICE, torch.int32)
        scored = score(rows, behind.row, behind.output, paths, behind.following.int(), setting.choices)
        self._scored = scored, len(rows)
        return [int(token) for token in behind.following.tolist()]

    def decode(self, rows: Sequence[int], num_steps: int | None = None) -> Iteration:
        """Run one iteration; a draft has the nodes of the parameters, whatever number of steps is asked for.

        The host waits for the device once, and once more for trees that a grammar looks at.
        """
        setting, num_nodes = self._setting, self.parameters.num_draft_tokens
        requests = self._ledger.requests
        known = [request.row for request in requests]
        require(known == list(rows), "rows of the batch", known, list(rows))
        drafts = [self.store.draft(last_tokens(request, self.parameters)) for request in requests]
        given = self._ledger.allocate_verify_slots(num_nodes)
        lengths = [request.num_committed for request in requests]
        ranges = flat_ranges(given)
        *there, row, seq_lens, tokens = upload([*ranges, rows, lengths, [one.tokens for one in drafts]], DEVICE)
        tree_mask = send(np.stack([draft.tree_mask for draft in drafts]), DEVICE)
        window = there[-1]
        setting.pools.assign_slots(there)
        stages = self._stages(GrownTrees(row, seq_lens, tokens, window, tree_mask), rows)
        stages.target()
        if setting.choices.is_constrained(rows):
            self._constrain(stages, rows)
        stages.accept()
        accepted = stages.verify_output
        paths, predict = accepted.accept_index, accepted.predict
        self._scored = score(rows, row, stages.output, paths, predict, setting.choices), len(rows)
        truncation = end_requests(accepted, len(rows), num_nodes, self._ledger)
        reclaim(
            row,
            seq_lens,
            num_nodes,
            window,
            given,
            truncation,
            BRANCHES,
            self.sizes.page_size,
            stages.scratch,
            setting.pools,
            self._ledger,
        )
        for request in requests:
            self.store.insert(last_tokens(request, self.parameters))
        self._phases = (stages.verify_input, accepted)
        return Iteration.of(truncation, num_nodes)

    def told(self) -> Told:
        """Return what is told of the tokens of the last prefill or iteration."""
        return told_by(*self._scored)

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over, live rows only, as NumPy arrays."""
        if self._phases is None:
            return ()
        return tuple(on_host(phase, self._scored[1]) for phase in self._phases)

    def state(self) -> dict[str, Any]:
        """Return the maps and pools by name; what starts a draft is text, which requests have."""
        return {name: value for name, value in self._setting.pools.state().items() if name not in CARRIED}

    def _stages(self, trees: GrownTrees, rows: Sequence[int]) -> TreeStages:
        """Return the stages of a batch: padded to its bucket, and captured where there are graphs."""
        choices = self._setting.choices
        kind = Kind(self.config.num_steps, *choices.wants(rows))
        if not self._pads:
            return TreeStages(self._setting, kind, trees)
        size = bucket_for(trees.num_requests, self._buckets)
        if self.use_graphs:
            stages = self._captured_stages(size, kind)
        else:
            stages = TreeStages.of_padding(self._setting, kind, size)
        stages.load(trees)
        return stages

    def _captured_stages(self, size: int, kind: Kind) -> TreeStages:
        """Return a bucket's graphs; those that are not greedy are captured when needed."""
        if (size, kind) not in self._captured:
            stages = TreeStages.of_padding(self._setting, kind, size)
            self._graph_memory = stages.capture(self._graph_memory)
            self._captured[size, kind] = stages
        return self._captured[size, kind]

    def _constrain(self, stages: TreeStages, rows: Sequence[int]) -> None:
        """Change the logits of the live requests as they want them."""
        phase, shape = stages.verify_input, stages.verify_input.retrieve_index.shape
        links = (phase.retrieve_next_token, phase.retrieve_next_sibling)
        constrain(stages.output, phase.draft_token.view(shape), *links, self._setting.choices.of(rows))
