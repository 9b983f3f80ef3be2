"""How an engine schedules: in one turn after another or overlapped, in whole prompts or chunks, with how much room."""

from dataclasses import dataclass
from fractions import Fraction

from specsim.rejection import Reason, check_range
from specsim.simulation.numbers import NumDrafts
from specsim.simulation.verification import Verification


@dataclass(frozen=True)
class Schedule:
    """What a user chooses of the scheduling; the default is that nothing overlaps and nothing is retracted.

    Parameters
    ----------
    is_overlapped : bool
        A turn is launched before the result of the one before is known. For V2 alone.
    prefill_chunk : int or None
        Positions that the prompts of one turn may have together; None for whole prompts.
    promised : Fraction
        The part of what running requests may still come to need that is kept free for them.
    stream_seed : int
        Draws which of the legal orders queued work runs in.
    depth : int or None
        Lets priorities that the seed draws decide about the order, which change ``depth - 1`` times a schedule
        (``Priorities``): of queued work, and of launches and results, so that a result may be read before the next
        launch. None for any legal order of queued work, and results after the next launch.
    has_prefix_cache : bool
        Texts that were resolved are kept, and prompts that begin alike start after them.
    clips_drafts : bool
        An iteration drafts no further than the context of every request in it goes, so that no position after one is
        read or written. For chains, on workers whose iterations draft fewer steps when they are asked to.
    num_drafts : NumDrafts or None
        Chooses for every iteration how many steps each of its requests drafts, from 0 to those of the iteration; None
        for as many as these. For workers that mix them.
    verification : Verification or None
        How many drafts of an iteration are verified, and in which mode; None for all of them. For chains, on workers
        that schedule verifies.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: a chunk without a position, a depth without an event; PROBABILITY_OUT_OF_RANGE: a part that
        is none.
    """

    is_overlapped: bool = False
    prefill_chunk: int | None = None
    promised: Fraction = Fraction(1)
    stream_seed: int = 0
    has_prefix_cache: bool = False
    clips_drafts: bool = False
    num_drafts: NumDrafts | None = None
    depth: int | None = None
    verification: Verification | None = None

    def __post_init__(self) -> None:
        if self.prefill_chunk is not None:
            because = "a turn goes on with a prompt"
            check_range(Reason.COUNT_OUT_OF_RANGE, "prefill_chunk", self.prefill_chunk, because, 1)
        if self.depth is not None:
            check_range(Reason.COUNT_OUT_OF_RANGE, "depth", self.depth, "a race is an order of events", 1)
        because = "it is a part of what requests may need"
        check_range(Reason.PROBABILITY_OUT_OF_RANGE, "promised", self.promised, because, 0, 1)

    def again(self, max_batch: int) -> tuple[int, "Schedule"]:
        """Return in batches of which size, and how, sampled requests are decoded again to the same outputs.

        One at a time, unless what is verified of a request depends on those beside it.
        """
        if self.verification is None:
            return 1, Schedule(num_drafts=self.num_drafts)
        return max_batch, self


IN_TURN = Schedule()
"""One turn after another, prompts whole, and room for everything that was admitted."""
