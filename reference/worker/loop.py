"""What both loops have: a draft side, pools, and the prefill."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from specsim.config import PoolSizes
from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
from specsim.conformance.direct import oracle
from specsim.host.acceptance import Acceptance, acceptance_of, check_thresholds
from specsim.host.choice import TokenChoice
from specsim.phases import Phase, VerifyInput
from specsim.reference.worker import arrays
from specsim.reference.worker.carried import waiting_inputs
from specsim.reference.worker.choices import ChoiceRows
from specsim.reference.worker.cut import cut_drafts
from specsim.reference.worker.logprobs import tell
from specsim.reference.worker.pools import MakePools, Pools
from specsim.reference.worker.prefill import TargetPrefill, prefill_target
from specsim.reference.worker.scheduled import Admitted, admit
from specsim.simulation.dflash import check_dflash_request
from specsim.simulation.draft_sides.stepwise import StepwiseSide
from specsim.simulation.handing_over import Contents, PoolForm
from specsim.simulation.logprobs import Reported, alone
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.moving import check_export, require_moves, sides_that_move
from specsim.simulation.models.protocol import Model
from specsim.simulation.numbers import Widths
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.sides import Drafting, DraftSide, Setting, Waiting
from specsim.simulation.verification import VerifyLimits

MakeSide = Callable[[Setting], DraftSide[Array, Pools, TargetPrefill, Waiting]]
"""Makes the draft side of a loop, and refuses what it cannot run."""


class Loop:
    """A worker but for its iterations; all that differs by algorithm is its draft side.

    Operations are a parameter, so that the same loop runs on the oracle, on a foreign implementation, or on one with a
    planted fault; so is the model, of which the loop knows what the protocol says.

    Parameters
    ----------
    drafting : SpecConfig, NgramParameters or DflashParameters
        The widest drafts, as the side takes them.
    model : Model
        Target and draft, on NumPy arrays.
    sizes : PoolSizes
        Slots, rows and row width.
    operations : CallsByName, optional
        Who computes, host functions included; the oracle by default.
    reads : Reads
        How much of the pools the forwards of a model read that can keep what it has read.
    make_pools : callable
        Makes the pools.
    make_side : callable
        Makes what drafts.
    name : str, optional
        What reports call it.
    device : str
        Where its operations run.
    has_dp_attention : bool
        Other ranks wait for the forwards of this one, so that they run without requests too.
    acceptance : str
        The rule by which drafts of sampled requests are accepted.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: no model, one that the side cannot run, or trees as blocks; UNKNOWN_NAME: no such rule;
        NO_MOVE: one whose KV would have to move, and cannot.
    """

    is_v1: ClassVar[bool]
    default_name: ClassVar[str]
    mixes_drafts: ClassVar[bool] = True

    def __init__(
        self,
        drafting: Drafting,
        model: Model[Array],
        sizes: PoolSizes,
        operations: CallsByName | None = None,
        reads: Reads = Reads.FULL,
        make_pools: MakePools = Pools.of,
        make_side: MakeSide = StepwiseSide,
        name: str | None = None,
        device: str = "cpu",
        has_dp_attention: bool = False,
        acceptance: str = Acceptance.TOKEN,
    ) -> None:
        self._operations: CallsByName = operations or oracle()
        self._has_dp_attention = has_dp_attention
        self.side = make_side(
            Setting(model, drafting, sizes, self._operations, arrays, waiting_inputs, has_dp_attention)
        )
        self.name, self.device = name or self.default_name, device
        self.parameters, self.config, self.model, self.sizes = drafting, drafting.config, model, sizes
        facts = self.side.facts
        self.has_plain_keys, self.tells = not facts.catches_up, facts.serves_all
        self._branches = facts.branches(self.config)
        self.schedules_verify = self._branches == 1
        require_moves(facts.description, sides_that_move(self._branches, sizes.page_size, self.is_v1))
        self._choices = ChoiceRows(sizes.num_rows, facts.keeps_top_k_exactly, acceptance_of(acceptance, self._branches))
        self._pools = make_pools(facts.description, sizes, reads)
        self._waiting = self.side.waiting(self.is_v1)
        self._phases: tuple[Phase, ...] = ()
        self._reported: Reported = ()

    def check_request(self, request: Request) -> None:
        """Refuse a request that the side does not serve, or whose drafts the rule cannot judge."""
        check_thresholds(self._choices.acceptance, request.sampling)
        if not self.side.facts.serves_all:
            check_dflash_request(request)

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self._pools.assign_slots(ranges, self._operations)

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how the tokens of joining requests are chosen."""
        self._choices.assign(rows, choices)
        self.side.join(rows)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts through target and draft; return the token after each.

        Notes
        -----
        Source: semantics J.0.
        """
        self._pools.start_iteration()
        after = prefill_target(rows, chunks, self.model, self._pools, self._choices, self._operations)
        self._waiting.keep(self.side.prefill(after, self._pools), joins=True)
        following, paths = after.following.astype(np.int32), alone(len(rows))
        self._reported = tell(after.row, after.output, paths, following, self._choices, self._operations)
        return [int(token) for token in following]

    def resized(self, drafting: Drafting) -> Self:
        """Return a worker of other sizes in the same pools and maps; what starts its drafts waits in its own place."""
        return type(self)(
            drafting,
            self.model,
            self.sizes,
            self._operations,
            make_pools=lambda *_: self._pools,
            make_side=self.side.resized,
            name=self.name,
            device=self.device,
            has_dp_attention=self._has_dp_attention,
            acceptance=self._choices.acceptance,
        )

    def export(self, row: int, slots: Sequence[int]) -> dict[str, list[Array]]:
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
        return self._reported

    def phases(self) -> tuple[Phase, ...]:
        """Return what the phases of the last iteration handed over."""
        return self._phases

    def state(self) -> dict[str, Any]:
        """Return the carried state by name, what waits for each request by its row."""
        return {**self._pools.state(), **self._waiting.state(), **self.side.state()}

    def _cut(self, drafted: VerifyInput, widths: Widths) -> VerifyInput:
        """Return what the target verifies of the drafts: of each request, as many levels as it was to draft."""
        return drafted if widths.own_steps is None else cut_drafts(drafted, widths.own_steps)

    def _admit(self, drafted: VerifyInput, limits: VerifyLimits | None, widths: Widths) -> Admitted | None:
        """Return which drafts are verified within some limits, None for all of them."""
        return admit(drafted, limits, widths, self.model.description, self._operations)
