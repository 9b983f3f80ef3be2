"""Ranks in one process, a thread each: a group whose members meet, and who is given up when one has left.

They take turns: a rank runs until it waits for the others, so that what is tried need not bear several threads at once.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Condition, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.simulation.ranks import LostRank


class Table:
    """Where all ranks of a group lay down what they say, round after round."""

    def __init__(self, size: int) -> None:
        self.changed = Condition()
        self.rounds: list[dict[int, Any]] = []
        self.answers: list[dict[int, Any]] = []
        self.present = set(range(size))
        self.left: set[int] = set()
        self.lost: list[LostRank] = []

    def leave(self, rank: int) -> None:
        """Say that a rank says nothing any more."""
        with self.changed:
            self.left.add(rank)
            self.changed.notify_all()


class LocalGroup:
    """One rank of a table; a rank that has left while others wait for it is lost."""

    def __init__(self, rank: int, table: Table) -> None:
        self.rank = rank
        self.lost = table.lost
        self.num_rounds = 0
        self._table = table

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks that are left."""
        return tuple(sorted(self._table.present))

    def exchange(self, what: str, values: Sequence[int]) -> Mapping[int, tuple[int, ...]]:
        """Return the numbers of all ranks that are left."""
        said = self._meet(what, tuple(values))
        return dict(sorted(said.items()))

    def sum(self, what: str, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum over all ranks that are left."""
        total: NDArray[np.int64] = np.sum(list(self._meet(what, values).values()), axis=0)
        return total

    def _meet(self, what: str, value: Any) -> dict[int, Any]:
        table, number = self._table, self.num_rounds
        self.num_rounds += 1
        with table.changed:
            if number == len(table.rounds):
                table.rounds.append({})
            table.rounds[number][self.rank] = (what, value)
            table.changed.notify_all()
            while number >= len(table.answers):
                said = table.rounds[number]
                if said.keys() >= table.present - table.left:
                    table.lost += [LostRank(rank, what) for rank in sorted(table.present - said.keys())]
                    table.present &= said.keys()
                    table.answers.append(dict(said))
                    table.changed.notify_all()
                else:
                    table.changed.wait()
            said = table.answers[number]
        wrong = {rank: other for rank, (other, _) in said.items() if other != what}
        if wrong:
            raise AssertionError(f"collectives of other ranks = {wrong}, but should be {what} like that of {self.rank}")
        return {rank: one for rank, (_, one) in said.items()}


def run_threads(size: int, run: Callable[[LocalGroup], Any]) -> tuple[list[Any], list[LostRank]]:
    """Run every rank in a thread of its own, one at a time; return what they return, and whom they gave up.

    Raises
    ------
    Exception
        The first that a rank raised.
    """
    table = Table(size)
    outcomes: list[Any] = [None] * size
    failures: list[BaseException] = []

    def run_one(rank: int) -> None:
        try:
            # NOTE: a rank that waits for a change gives this up, all of it, until there is one.
            with table.changed:
                outcomes[rank] = run(LocalGroup(rank, table))
        except BaseException as failure:
            failures.append(failure)
        finally:
            table.leave(rank)

    threads = [Thread(target=run_one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return outcomes, table.lost
