"""The draft side of a loop: all that differs between the algorithms of one worker, whatever arrays it computes on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from specsim.config import PoolSizes, SpecConfig
from specsim.phases import DraftInput, EagleDraftExtendInput, FrozenKVMTPDraftInput, Phase, VerifyInput, VerifyOutput
from specsim.phases.form import Zeros
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.numbers import Steps, Widths, check_steps
from specsim.simulation.worker import Proposals

BRANCHES = 2
"""Stands for the branching factor where drafts are trees of any form."""

ArrayT = TypeVar("ArrayT")
PoolsT_contra = TypeVar("PoolsT_contra", contravariant=True)
PrefillT_contra = TypeVar("PrefillT_contra", contravariant=True)


@dataclass(frozen=True)
class SideFacts:
    """Facts about a draft side.

    Parameters
    ----------
    description : ModelDescription
        What the model says of itself, with the KV that the side needs.
    num_candidates : int
        Tokens that wait of every request between iterations.
    borrows : bool
        Whether a draft writes slots of its own, which V1 borrows for it.
    writes_root : bool
        Whether these include one for the root.
    catches_up : bool
        Whether the draft has KV that catches up by an extend, and whose entries consumed the token after their
        position. Otherwise caches hold at a position what its own token says, and are final as the target's are.
    proposes_by_tree : bool
        Whether it drafts trees whatever the topk says, so that what is proposed never follows from sizes alone.
    narrows : bool
        Whether a chain drafts fewer steps where an iteration has fewer. Otherwise the drafts are as wide as ever, and
        those beyond the steps of a request are cut.
    keeps_top_k_exactly : bool
        Whether drafts are accepted from exactly as many tokens as the top-k of their request says.
    counts_only_output : bool
        Whether V1 counts the accepted drafts that are output, and no others.
    serves_all : bool
        Whether requests may bring grammars and ask for log-probabilities and hidden states.
    draft_input : type
        The class of what V1 carries to start a draft.
    drafts_on_host : bool
        Whether drafts come from the host, which has to know what was output, so that no graph follows a verify.
    """

    description: ModelDescription
    num_candidates: int
    borrows: bool = True
    writes_root: bool = False
    catches_up: bool = True
    proposes_by_tree: bool = False
    narrows: bool = True
    keeps_top_k_exactly: bool = False
    counts_only_output: bool = False
    serves_all: bool = True
    draft_input: type[DraftInput] = DraftInput
    drafts_on_host: bool = False

    @classmethod
    def of_seeds(cls, description: ModelDescription, num_candidates: int) -> "SideFacts":
        """Return the facts of a draft without KV, which seeds start."""
        kind = FrozenKVMTPDraftInput
        return cls(description, num_candidates, borrows=False, catches_up=False, draft_input=kind)

    def idle_input(self, zeros: Zeros) -> DraftInput:
        """Return a draft input of no request, which others can merge with; ``zeros`` makes its arrays."""
        facts = self.description
        width = facts.draft_hidden_width if facts.has_draft_hidden else None
        return self.draft_input.create_idle_input(self.num_candidates, width, facts.hidden_dtype, zeros)

    def branches(self, config: SpecConfig) -> int:
        """Return the branching factor of its drafts: 1 says that an accepted path lies at the front."""
        return BRANCHES if self.proposes_by_tree else config.topk

    def sizes_at(self, config: SpecConfig, num_steps: int | None) -> SpecConfig:
        """Return the sizes of an iteration whose widest request drafts so many steps; None for all of them.

        A chain gets narrower. The width of a tree does not follow from its depth, and other drafts have one width.
        """
        return config.at_steps(num_steps) if self._is_narrowing(config) else config

    def widths_at(self, config: SpecConfig, num_steps: Steps, num_requests: int) -> Widths:
        """Return the sizes of an iteration, and what is cut of them for single requests.

        Requests that all draft the same number are those of an iteration with that number.

        Raises
        ------
        SpecRejection
            BAD_CONFIGURATION: more steps than are allocated, or fewer than none; INCONSISTENT_LENGTHS: not one number
            a request.
        """
        if num_steps is None or isinstance(num_steps, int | np.integer):
            if num_steps is None or self._is_narrowing(config):
                return Widths(self.sizes_at(config, num_steps))
            num_steps = (int(num_steps),) * num_requests
        own_steps = check_steps(num_steps, num_requests, config.num_steps)
        sizes = self.sizes_at(config, max(own_steps, default=None))
        return Widths(sizes, own_steps if any(one < sizes.num_steps for one in own_steps) else None)

    def _is_narrowing(self, config: SpecConfig) -> bool:
        return self.narrows and config.topk == 1

    def proposals(self, verify_input: VerifyInput, widths: Widths) -> Proposals | None:
        """Return what trees propose, NumPy's; None where the sizes of the iteration say so, as of a whole chain."""
        if widths.own_steps is None and self.branches(widths.config) == 1:
            return None
        depths = verify_input.positions.reshape(-1, verify_input.num_draft_tokens) - verify_input.seq_lens[:, None]
        return Proposals.of_depths(depths, widths.own_steps)


class Drafting(Protocol):
    """What a user chooses of drafts: sizes, or parameters that have some."""

    @property
    def config(self) -> SpecConfig:
        """The sizes of an iteration."""


class Waiting(Protocol):
    """What waits between the iterations of a loop to start the next drafts."""

    def take(self, rows: Sequence[int]) -> Any:
        """Return what starts the drafts of these rows.

        Its ``req_pool_indices`` and ``seq_lens`` [request] are rows and committed lengths.
        """

    def keep(self, start: Any, joins: bool = False) -> None:
        """Keep what starts the next drafts; with ``joins`` those of requests that join the batch later."""

    def state(self) -> dict[str, Any]:
        """Return it by name, each value by request row."""


WaitingT_co = TypeVar("WaitingT_co", bound=Waiting, covariant=True)


@dataclass(frozen=True)
class Followed(Generic[ArrayT]):
    """A draft side after a verify.

    Parameters
    ----------
    start : DraftInput, DflashDraftInput or the side's own
        What starts the next drafts.
    phase : Phase or None
        What was handed over.
    tokens : int32 [request, node] or None
        The output tokens of each request at the front; V1 knows them already.
    """

    start: Any
    phase: Phase | None = None
    tokens: ArrayT | None = None


@dataclass(frozen=True)
class Setting:
    """What a side is made for.

    Parameters
    ----------
    model : Model
        The model, which the side refuses where it cannot run it.
    drafting : SpecConfig, NgramParameters or DflashParameters
        The widest drafts.
    sizes : PoolSizes
        Those of the pools.
    operations : CallsByName or module
        Who computes.
    arrays : ArrayLibrary
        What is done with arrays beside.
    make_waiting : callable
        Makes of facts, sizes, operations and whether the loop is V1 where draft inputs wait.
    has_dp_attention : bool
        Whether other ranks wait for the forwards of this one.
    """

    model: Any
    drafting: Any
    sizes: PoolSizes
    operations: Any
    arrays: Any
    make_waiting: Callable[..., Any]
    has_dp_attention: bool = False


class DraftSide(Protocol[ArrayT, PoolsT_contra, PrefillT_contra, WaitingT_co]):
    """What a loop asks of its draft; the pools are the loop's, and ``facts`` are known before the first token."""

    facts: SideFacts

    def waiting(self, is_v1: bool) -> WaitingT_co:
        """Return the place where what starts its drafts waits, empty."""

    def join(self, rows: Sequence[int]) -> None:
        """Take note of requests that join in these rows."""

    def prefill(self, after: PrefillT_contra, pools: PoolsT_contra) -> Any:
        """Follow chunks that the target is through with, and return what starts drafts after them."""

    def draft(
        self, start: Any, config: SpecConfig, pools: PoolsT_contra, verify_slots: Callable[[], ArrayT]
    ) -> VerifyInput:
        """Return what the target verifies of every request.

        ``verify_slots`` returns int64 [request*node], the slots that the target will write; called after the draft.
        """

    def follow(
        self,
        start: Any,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        config: SpecConfig,
        pools: PoolsT_contra,
    ) -> Followed[ArrayT]:
        """Follow a verify of V2, whose arrays have one width a request."""

    def follow_ragged(
        self,
        start: Any,
        everyone: EagleDraftExtendInput,
        going_on: EagleDraftExtendInput,
        config: SpecConfig,
        pools: PoolsT_contra,
    ) -> Followed[ArrayT]:
        """Follow a verify of V1: the accepted tokens of all requests, and of those that go on."""

    def resized(self, setting: Setting) -> "DraftSide[ArrayT, PoolsT_contra, PrefillT_contra, WaitingT_co]":
        """Return a side of other sizes that goes on with what belongs to no request."""

    def state(self) -> dict[str, Any]:
        """Return what it keeps by row besides, by name."""


def handed_over(*values: object) -> tuple[Phase, ...]:
    """Return those of an iteration's values that are phases: what starts a draft may be the side's own."""
    return tuple(value for value in values if isinstance(value, Phase))
