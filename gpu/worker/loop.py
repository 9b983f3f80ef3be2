"""What both loops have on the device: a draft side, pools, graphs by bucket, and the prefill."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from specsim import gpu
from specsim.config import PoolSizes
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker import arrays
from specsim.gpu.worker.carried import waiting_inputs
from specsim.gpu.worker.choices import ChoiceRows
from specsim.gpu.worker.graphs import require_graphs
from specsim.gpu.worker.logprobs import Scored, reported_by, score
from specsim.gpu.worker.pools import Pools, flat_ranges
from specsim.gpu.worker.prefill import prefill_target
from specsim.gpu.worker.stages import Batches, DeviceSide, Parts, Shared, Stages
from specsim.gpu.worker.transfer import on_host, upload
from specsim.host.acceptance import Acceptance, acceptance_of, check_thresholds
from specsim.host.choice import TokenChoice
from specsim.phases import Phase
from specsim.simulation.dflash import check_dflash_request
from specsim.simulation.draft_sides.stepwise import StepwiseSide
from specsim.simulation.handing_over import Contents, PoolForm
from specsim.simulation.logprobs import Reported, alone
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.moving import check_export, require_moves, sides_that_move
from specsim.simulation.models.protocol import Model
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.sides import Drafting, Followed, Setting, handed_over

MakeSide = Callable[[Setting], DeviceSide]
"""Makes the draft side of a loop, and refuses what it cannot run."""


class Loop(ABC):
    """A worker but for its iterations; all that differs by algorithm is its draft side.

    What an iteration runs on the device is captured in graphs on a GPU, and runs eagerly elsewhere.

    Parameters
    ----------
    drafting : SpecConfig, NgramParameters or DflashParameters
        The widest drafts, as the side takes them.
    model : Model
        Target and draft, on torch tensors.
    sizes : PoolSizes
        Slots, rows and row width.
    use_graphs : bool, optional
        Capture and replay; by default wherever there is a GPU and the model can be captured.
    pads : bool
        Pad batches to buckets in eager mode too; graphs always do.
    has_dp_attention : bool
        Other ranks wait for the forwards of this one, so that they run without requests too.
    pools : Pools or None
        Those of another worker, whose maps, KV and states this one goes on in; None for pools of its own.
    make_side : callable
        Makes what drafts.
    name : str, optional
        What reports call it.
    acceptance : str
        The rule by which drafts of sampled requests are accepted.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: no model, one that the side cannot run, trees as blocks, or graphs of a model that cannot be
        captured; UNKNOWN_NAME: no such rule; NO_MOVE: a model whose KV would have to move, and cannot; WRONG_DEVICE:
        graphs were asked for where there is no GPU.
    """

    is_v1: ClassVar[bool]
    default_name: ClassVar[str]
    mixes_drafts: ClassVar[bool] = True

    def __init__(
        self,
        drafting: Drafting,
        model: Model[Tensor],
        sizes: PoolSizes,
        use_graphs: bool | None = None,
        pads: bool = False,
        has_dp_attention: bool = False,
        pools: Pools | None = None,
        make_side: MakeSide = StepwiseSide,
        name: str | None = None,
        acceptance: str = Acceptance.TOKEN,
    ) -> None:
        self._has_dp_attention = has_dp_attention
        self.side = make_side(Setting(model, drafting, sizes, gpu, arrays, waiting_inputs, has_dp_attention))
        self.name = name or self.default_name
        self.parameters, self.config, self.model, self.sizes = drafting, drafting.config, model, sizes
        facts, description = self.side.facts, self.side.facts.description
        self.has_plain_keys, self.tells = not facts.catches_up, facts.serves_all
        self._branches = facts.branches(self.config)
        self.schedules_verify = self._branches == 1
        require_moves(description, sides_that_move(self._branches, sizes.page_size, self.is_v1))
        is_possible = DEVICE.type == "cuda" and description.is_capturable
        self.use_graphs = is_possible if use_graphs is None else use_graphs
        if self.use_graphs:
            require_graphs(description.name, description.is_capturable)
        self.device = torch.cuda.get_device_name(DEVICE) if DEVICE.type == "cuda" else "cpu (Triton interpreter)"
        num_nodes = self.config.num_draft_tokens
        self._pools = Pools(description, num_nodes, sizes, DEVICE) if pools is None else pools.resized(num_nodes)
        rule = acceptance_of(acceptance, self._branches)
        self._choices = ChoiceRows(sizes.num_rows, DEVICE, facts.keeps_top_k_exactly, rule)
        self._waiting = self.side.waiting(self.is_v1)
        self._shared = Shared(self.config, model, self._pools, self._choices, self.side, self._waiting, self._branches)
        self._pads = pads
        self._batches = Batches(self._shared, self.is_v1, self.use_graphs, pads, max(sizes.num_rows - 1, 1))
        self._last: tuple[Stages, Followed[Tensor], int] | None = None
        self._scored: tuple[Scored | None, int] = None, 0
        if self.use_graphs:
            self._batches.capture_greedy(self._parts())

    def check_request(self, request: Request) -> None:
        """Refuse a request that the side does not serve, or whose drafts the rule cannot judge."""
        check_thresholds(self._choices.acceptance, request.sampling)
        if not self.side.facts.serves_all:
            check_dflash_request(request)

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self._pools.assign_slots(upload(flat_ranges(ranges), DEVICE))

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how the tokens of joining requests are chosen."""
        self._choices.assign(rows, choices)
        self.side.join(rows)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts through target and draft; return the token after each."""
        after = prefill_target(rows, chunks, self.model, self._pools, self._choices)
        self._waiting.keep(self.side.prefill(after, self._pools), joins=True, rows=rows)
        paths, following = arrays.asarray(alone(len(rows)), "int32"), after.following.int()
        self._scored = score(after.asked, after.row, after.output, paths, following, self._choices), len(rows)
        return after.tokens

    def resized(self, drafting: Drafting) -> Self:
        """Return a worker of other sizes in the same maps, KV and states, with graphs of its own.

        What starts its drafts waits in its own place.
        """
        return type(self)(
            drafting,
            self.model,
            self.sizes,
            self.use_graphs,
            self._pads,
            self._has_dp_attention,
            self._pools,
            self.side.resized,
            self.name,
            self._choices.acceptance,
        )

    def export(self, row: int, slots: Sequence[int]) -> dict[str, list[NDArray[Any]]]:
        """Return copies of what leaves with a request: its KV in both caches, slot by slot, and its recurrent states.

        Raises
        ------
        SpecRejection
            What ``check_export`` refuses.
        """
        check_export(self.side.facts.description, self.sizes, row, slots)
        return self._pools.export(row, slots)

    @property
    def pool_form(self) -> PoolForm:
        """How the worker stores a text, whichever model and draft side it has."""
        return PoolForm.of(self.side.facts.description, self.sizes.page_size)

    def load(self, row: int, slots: Sequence[int], contents: Contents) -> None:
        """Write what another worker has exported into some slots of a row, and the row's states.

        Raises
        ------
        SpecRejection
            What ``check_export`` refuses.
        """
        check_export(self.side.facts.description, self.sizes, row, slots)
        self._pools.load(row, slots, contents)

    def told(self) -> Reported:
        """Return what is reported of the tokens of the last prefill or iteration."""
        return reported_by(*self._scored)

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over, live rows only, as NumPy arrays."""
        if self._last is None:
            return ()
        stages, followed, live = self._last
        padded = handed_over(stages.start, stages.verify_input, stages.verify_output)
        own = handed_over(followed.phase)
        return *(on_host(one, live) for one in padded), *(on_host(one, None if self.is_v1 else live) for one in own)

    def state(self) -> dict[str, Any]:
        """Return the carried state by name as NumPy arrays, what waits for each request by its row."""
        return {**self._pools.state(), **self._waiting.state(), **self.side.state()}

    @abstractmethod
    def _parts(self, is_interrupted: bool = False) -> Parts:
        """Return which stages run together; ``is_interrupted`` where the host looks at logits."""
