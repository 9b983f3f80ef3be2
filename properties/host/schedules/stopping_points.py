"""Whether a schedule stops before it reads: its lengths are a function of the drafts that it sends to be judged.

A request's length may read drafts that are judged already, of its own and of other requests. The criterion needs no
law and no coins: change one draft after a cut, and no length of the batch may change. Two arrays that agree on all
drafts that are judged can be turned into each other one draft at a time, so one change at a time decides about all
pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from specsim.properties.host.schedules.exact_law import Drafts, Lengths, Schedule


@dataclass(frozen=True)
class Unpredictable:
    """Two arrays of drafts that differ in one draft, which is not judged on the first, and have other lengths.

    Parameters
    ----------
    drafts, others : tuple of tuples of int
        The two arrays.
    lengths, other_lengths : tuple of int
        Drafts that are sent of each request.
    request, position : int
        The request whose draft differs, and which of its drafts does, from 1.
    """

    drafts: Drafts
    others: Drafts
    lengths: Lengths
    other_lengths: Lengths
    request: int
    position: int

    @property
    def misled(self) -> tuple[int, ...]:
        """The requests whose length changes."""
        pairs = zip(self.lengths, self.other_lengths, strict=True)
        return tuple(place for place, (one, other) in enumerate(pairs) if one != other)

    def __str__(self) -> str:
        misled = " and ".join(map(str, self.misled))
        return (
            f"verified drafts of drafts {_listed(self.drafts)} = {[*self.lengths]}, but should be"
            f" {[*self.other_lengths]} as of drafts {_listed(self.others)}, because draft {self.position} of request"
            f" {self.request}, which is not judged, may not decide the length of request {misled}"
        )


def _listed(drafts: Drafts) -> list[list[int]]:
    return [[*draft] for draft in drafts]


def first_unpredictable(schedule: Schedule, vocab_size: int, look_ahead: int) -> Unpredictable | None:
    """Return the first pair of arrays that a schedule must not tell apart and does; None if its cuts are stops.

    Parameters
    ----------
    schedule : mapping
        The lengths that it chooses for every array of drafts.
    vocab_size : int
        Tokens that a draft can be.
    look_ahead : int
        Drafts after the cut that are judged too: 0 where the token at the cut is drawn, 1 where the next draft may be
        that token.
    """
    for drafts, lengths in schedule.items():
        for request, draft in enumerate(drafts):
            num_judged = min(lengths[request] + look_ahead, len(draft))
            for place in range(num_judged, len(draft)):
                for others in _with_another_token(drafts, request, place, vocab_size):
                    if schedule.get(others, lengths) != lengths:
                        return Unpredictable(drafts, others, lengths, schedule[others], request, place + 1)
    return None


def _with_another_token(drafts: Drafts, request: int, place: int, vocab_size: int) -> Sequence[Drafts]:
    draft = drafts[request]
    changed = ((*draft[:place], token, *draft[place + 1 :]) for token in range(vocab_size) if token != draft[place])
    return [(*drafts[:request], one, *drafts[request + 1 :]) for one in changed]
