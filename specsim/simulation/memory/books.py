"""The books of one request: how far its positions are cached, committed and allocated."""

from dataclasses import dataclass, replace

from specsim.rejection import Reason, SpecRejection


@dataclass(frozen=True)
class Books:
    """Lengths of one request, in positions from the front of its text. Every change returns other books.

    ``0 ≤ num_protected ≤ num_committed ≤ num_allocated`` always. Positions before ``num_protected`` lie in slots of the
    prefix cache, which keeps them locked; those up to the end of the last allocated page belong to the request.
    Positions before ``num_committed`` are text, those from there are scratch.

    Parameters
    ----------
    row : int
        Row of the request-to-token map; 0 for none.
    num_protected, num_committed, num_allocated : int
        The lengths.
    num_retractions : int
        How often the request lost everything; what was launched before the last time is dropped when it arrives.
    is_retracted : bool
        Whether it waits to come back.
    is_committed_freed, is_overallocated_freed : bool
        Whether the text and the scratch after it were given back, each once.

    Notes
    -----
    Source: semantics I.1, I.3, I.4.
    """

    row: int = 0
    num_protected: int = 0
    num_committed: int = 0
    num_allocated: int = 0
    num_retractions: int = 0
    is_retracted: bool = False
    is_committed_freed: bool = False
    is_overallocated_freed: bool = False

    def admit(self, row: int, num_protected: int) -> "Books":
        """Give the request a row whose first positions are cached.

        Raises
        ------
        SpecRejection
            DUPLICATE_ROW: it has one already.
        """
        self.require_waiting()
        return replace(
            self,
            row=row,
            num_protected=num_protected,
            num_committed=num_protected,
            num_allocated=num_protected,
            is_retracted=False,
        )

    def require_waiting(self) -> None:
        """Refuse to admit a request that has a row."""
        if self.row:
            raise SpecRejection(Reason.DUPLICATE_ROW, "row of the request", self.row, "none", "it has one")

    def allocate(self, end: int) -> "Books":
        """Own the positions up to an end.

        Raises
        ------
        SpecRejection
            COUNT_OUT_OF_RANGE: the end lies before what is allocated.
        """
        if end < self.num_allocated:
            raise _out_of_range("num_allocated", end, f"at least {self.num_allocated}", "nothing is given back so")
        return replace(self, num_allocated=end)

    def fill(self, end: int) -> "Books":
        """Own the positions up to an end, and have text in all of them: a chunk of a prompt, a V1 iteration."""
        return self.allocate(end).commit(end - self.num_committed)

    def commit(self, num_tokens: int) -> "Books":
        """Turn so many positions of scratch into text.

        Raises
        ------
        SpecRejection
            COUNT_OUT_OF_RANGE: fewer are allocated, or the count is negative.
        """
        end = self.num_committed + num_tokens
        if not self.num_committed <= end <= self.num_allocated:
            bounds = f"{self.num_committed} to {self.num_allocated}"
            raise _out_of_range("num_committed", end, bounds, "text lies in allocated positions")
        return replace(self, num_committed=end)

    def resolve(self, num_tokens: int, num_retractions: int, is_finished: bool) -> "Books":
        """Commit what an iteration accepted, unless the request was retracted since its launch or has finished.

        Parameters
        ----------
        num_tokens : int
            Output tokens that are kept.
        num_retractions : int
            How often the request had been retracted at the launch.
        is_finished : bool
            Whether it had finished before the result arrived.
        """
        if is_finished or num_retractions != self.num_retractions:
            return self
        return self.commit(num_tokens)

    def protect(self, num_protected: int) -> "Books":
        """Leave the positions up to a length to the prefix cache.

        Raises
        ------
        SpecRejection
            COUNT_OUT_OF_RANGE: the length shrinks, or text ends before it.
        """
        if not self.num_protected <= num_protected <= self.num_committed:
            bounds = f"{self.num_protected} to {self.num_committed}"
            raise _out_of_range("num_protected", num_protected, bounds, "resolved text alone is cached")
        return replace(self, num_protected=num_protected)

    def free_committed(self) -> "Books":
        """Note that the text was given back.

        Raises
        ------
        SpecRejection
            DOUBLE_FREE: it was before.
        """
        if self.is_committed_freed:
            raise _freed_twice("committed positions")
        return replace(self, is_committed_freed=True)

    def free_overallocated(self) -> "Books":
        """Note that the scratch after the text was given back.

        Raises
        ------
        SpecRejection
            DOUBLE_FREE: it was before.
        """
        if self.is_overallocated_freed:
            raise _freed_twice("positions after the text")
        return replace(self, is_overallocated_freed=True)

    def leave(self) -> "Books":
        """Return the books of a request that has given everything back."""
        return replace(
            self,
            row=0,
            num_protected=0,
            num_committed=0,
            num_allocated=0,
            is_committed_freed=False,
            is_overallocated_freed=False,
        )

    def retract(self) -> "Books":
        """Return the books of a request that has given everything back and waits to come again."""
        return replace(self.leave(), num_retractions=self.num_retractions + 1, is_retracted=True)


def _out_of_range(what: str, got: int, expected: str, because: str) -> SpecRejection:
    return SpecRejection(Reason.COUNT_OUT_OF_RANGE, what, got, expected, because)


def _freed_twice(what: str) -> SpecRejection:
    return SpecRejection(Reason.DOUBLE_FREE, what, "freed", "owned", "a request gives them back once")
