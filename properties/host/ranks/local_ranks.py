"""Ranks in one process, a thread each: a group whose members meet, and who is given up when one has left.

They take turns: a rank runs until it waits for the others, so that what is tried need not bear several threads at once.
Who goes on where several can is chosen, so that two runs do the same.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Condition, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.simulation.ranks import LostRank

Choose = Callable[[Sequence[int]], Any]
"""Returns which of the ranks that can go on does."""


class Table:
    """Where all ranks of a group lay down what they say, round after round.

    ``turn`` is the rank that runs, None where no rank can.
    """

    def __init__(self, size: int, choose: Choose = min) -> None:
        self.changed = Condition()
        self.rounds: list[dict[int, Any]] = []
        self.answers: list[dict[int, Any]] = []
        self.present = set(range(size))
        self.left: set[int] = set()
        self.lost: list[LostRank] = []
        self._choose = choose
        self._awaited = dict.fromkeys(range(size), -1)
        self.turn: int | None = choose(range(size))

    def await_turn(self, rank: int) -> None:
        """Wait until a rank runs."""
        while self.turn != rank:
            self.changed.wait()

    def say(self, rank: int, number: int, what: str, value: Any) -> dict[int, Any]:
        """Lay down what a rank says in a round, and return what all said once it is its turn."""
        if number == len(self.rounds):
            self.rounds.append({})
        self.rounds[number][rank] = (what, value)
        self._awaited[rank] = number
        self._hand_on()
        self.await_turn(rank)
        return self.answers[number]

    def leave(self, rank: int) -> None:
        """Say that a rank says nothing any more."""
        with self.changed:
            self.left.add(rank)
            self._hand_on()

    def _hand_on(self) -> None:
        """Answer the rounds in which no other rank will say anything, and choose who runs."""
        while len(self.answers) < len(self.rounds):
            said = self.rounds[len(self.answers)]
            if not said.keys() >= self.present - self.left:
                break
            during = next(iter(said.values()))[0]
            self.lost += [LostRank(rank, during) for rank in sorted(self.present - said.keys())]
            self.present &= said.keys()
            self.answers.append(dict(said))
        able = [rank for rank, number in self._awaited.items() if rank not in self.left and number < len(self.answers)]
        self.turn = self._choose(able) if able else None
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
        number = self.num_rounds
        self.num_rounds += 1
        with self._table.changed:
            said = self._table.say(self.rank, number, what, value)
        wrong = {rank: other for rank, (other, _) in said.items() if other != what}
        if wrong:
            raise AssertionError(f"collectives of other ranks = {wrong}, but should be {what} like that of {self.rank}")
        return {rank: one for rank, (_, one) in said.items()}


def run_threads(size: int, run: Callable[[LocalGroup], Any], choose: Choose = min) -> tuple[list[Any], list[LostRank]]:
    """Run every rank in a thread of its own, one at a time; return what they return, and whom they gave up.

    Parameters
    ----------
    choose : callable
        Which of several ranks goes on; the first, if nothing is said.

    Raises
    ------
    Exception
        The first that a rank raised.
    """
    table = Table(size, choose)
    outcomes: list[Any] = [None] * size
    failures: list[BaseException] = []

    def run_one(rank: int) -> None:
        try:
            # NOTE: a rank that waits for its turn gives this up, all of it, until then.
            with table.changed:
                table.await_turn(rank)
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
