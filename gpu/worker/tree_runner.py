"""What workers share whose trees the host grows: pools of the target alone, and stages by bucket."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from specsim.config import PoolSizes, SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.choices import Asked, ChoiceRows
from specsim.gpu.worker.constraints import constrain_trees
from specsim.gpu.worker.graphs import Kind, bucket_for, bucket_sizes, require_graphs
from specsim.gpu.worker.logprobs import Scored, score
from specsim.gpu.worker.pools import CARRIED, Pools
from specsim.gpu.worker.prefill import device_array, prefill_target
from specsim.gpu.worker.stages import Setting
from specsim.gpu.worker.trees import GrownTrees, TreeStages
from specsim.simulation.logprobs import alone
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import Model, require_model
from specsim.simulation.requests import PromptChunk


class TreeRunner:
    """Runs the target over trees that it is given: in captured graphs on a GPU, eagerly elsewhere.

    Parameters
    ----------
    config : SpecConfig
        Nodes of a tree, and the most that are accepted.
    model : Model
        Its target, on torch tensors.
    sizes : PoolSizes
        Slots, rows and row width.
    use_graphs : bool or None
        Capture and replay; None for wherever there is a GPU and the model can be captured.
    pads : bool
        Pad batches to buckets in eager mode too; graphs always do.
    moves : bool
        Accepted KV moves in a stage of its own.
    pools : Pools, optional
        Those of a worker whose drafts have another size, to go on in.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: no model, or graphs of one that cannot be captured; WRONG_DEVICE: graphs were asked for where
        there is no GPU.
    """

    def __init__(
        self,
        config: SpecConfig,
        model: Model[Tensor],
        sizes: PoolSizes,
        use_graphs: bool | None,
        pads: bool,
        moves: bool,
        pools: Pools | None = None,
    ) -> None:
        description = require_model(model, "torch")
        is_possible = DEVICE.type == "cuda" and description.is_capturable
        self.use_graphs = is_possible if use_graphs is None else use_graphs
        if self.use_graphs:
            require_graphs(description.name, description.is_capturable)
        self.device = torch.cuda.get_device_name(DEVICE) if DEVICE.type == "cuda" else "cpu (Triton interpreter)"
        own = tuple(one for one in description.kv_components if one.side is Side.TARGET)
        told, widths = replace(description, kv_components=own), (1, config.num_draft_tokens)
        self.pools = Pools(told, *widths, sizes, DEVICE) if pools is None else pools.resized(*widths)
        self.choices = ChoiceRows(sizes.num_rows, DEVICE)
        self._setting = Setting(config, model, self.pools, self.choices, sizes.page_size)
        self._pads = pads or self.use_graphs
        self._moves = moves
        self._buckets = bucket_sizes(max(sizes.num_rows - 1, 1))
        self._captured: dict[tuple[int, Kind], TreeStages] = {}
        self._graph_memory: Any = None
        if self.use_graphs:
            for size in reversed(self._buckets):
                self._captured_stages(size, Kind(config.num_steps, False))

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> tuple[list[int], Scored | None]:
        """Run chunks of prompts through the target; return the token behind each, and what is told of it."""
        behind = prefill_target(rows, chunks, self._setting.model, self.pools, self.choices)
        paths = device_array(alone(len(rows)), DEVICE, torch.int32)
        scored = score(behind.asked, behind.row, behind.output, paths, behind.following.int(), self.choices)
        return [int(token) for token in behind.following.tolist()], scored

    def verify(self, trees: GrownTrees, rows: Sequence[int]) -> tuple[TreeStages, Scored | None]:
        """Run the target over the trees of a batch and accept; the slots of their windows are in the map.

        Nobody waits for the device, unless a grammar or a processor looks at the logits of a request.
        """
        asked = self.choices.asked(rows)
        stages = self._stages(trees, asked)
        stages.target()
        if asked.is_constrained:
            constrain_trees(stages.output, stages.verify_input, asked.choices)
        stages.accept()
        accepted = stages.verify_output
        paths, predict = accepted.accept_index, accepted.predict
        return stages, score(asked, trees.req_pool_indices, stages.output, paths, predict, self.choices)

    def state(self) -> dict[str, Any]:
        """Return the maps and pools by name, as NumPy arrays; what starts a draft is not among them."""
        return {name: value for name, value in self.pools.state().items() if name not in CARRIED}

    def _stages(self, trees: GrownTrees, asked: Asked) -> TreeStages:
        """Return the stages of a batch: padded to its bucket, and captured where there are graphs."""
        kind = Kind(self._setting.config.num_steps, *asked.wants)
        if not self._pads or not asked.choices:
            return TreeStages(self._setting, kind, trees, self._moves)
        size = bucket_for(trees.num_requests, self._buckets)
        if self.use_graphs:
            stages = self._captured_stages(size, kind)
        else:
            stages = TreeStages.of_padding(self._setting, kind, size, self._moves)
        stages.load(trees)
        return stages

    def _captured_stages(self, size: int, kind: Kind) -> TreeStages:
        """Return a bucket's graphs; those that are not greedy are captured when needed."""
        if (size, kind) not in self._captured:
            stages = TreeStages.of_padding(self._setting, kind, size, self._moves)
            self._graph_memory = stages.capture(self._graph_memory)
            self._captured[size, kind] = stages
        return self._captured[size, kind]
