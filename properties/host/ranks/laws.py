"""Laws of ranks that run the same requests: a value that differs in its last bit on one of them decides nothing."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from specsim.conformance.backend import Backend, load
from specsim.properties.host.ranks.local_ranks import LocalGroup, run_threads
from specsim.properties.host.ranks.rounds import Decisions, play_rounds
from specsim.properties.host.ranks.strategy import RanksCase, Text, ranks_cases
from specsim.properties.laws.checks import Array, require, state

ORACLE = load("specsim.reference")
AGREE = "broadcast_decision"
LAST_OF_A_ROUND = "bonus tokens"


@dataclass
class LastBits:
    """What a rank computes: some values are the next larger or smaller number to those of the first rank."""

    rank: int
    seed: int
    num_values: int = 0

    def __call__(self, _: str, own: Array) -> Array:
        """Return values as this rank has them."""
        self.num_values += 1
        if self.rank == 0:
            return own
        generator = np.random.default_rng((self.seed, self.rank, self.num_values))
        to = generator.choice([-np.inf, np.inf], own.shape).astype(own.dtype)
        return np.where(generator.random(own.shape) < 0.5, np.nextafter(own, to), own)


@dataclass
class Log:
    """What a rank has decided, round after round."""

    number: int = 0
    decided: list[tuple[int, str, Array]] = field(default_factory=list)

    def add(self, what: str, values: Array) -> None:
        """Note a decision."""
        self.decided.append((self.number, what, values))
        self.number += what == LAST_OF_A_ROUND


def last_bits_of_a_rank_change_no_decision(backend: Backend, case: RanksCase) -> None:
    """Every rank decides and outputs what the first one does, whatever the last bits of its own values are."""
    alone, logs = Log(), [Log() for _ in range(case.num_ranks)]
    expected = play_rounds(Decisions(ORACLE, case.run, partial(_note, alone)))
    try:
        outputs, lost = run_threads(case.num_ranks, partial(_play, backend, case, logs))
    finally:
        # NOTE: ranks that have parted do not meet again; what parted them says more.
        _compare(logs, alone)
    require(not lost, "ranks that were given up", [str(one) for one in lost], "none")
    for rank, output in enumerate(outputs):
        require(output == expected, f"outputs of rank {rank}", output, expected)


def _note(log: Log, what: str, values: Array) -> Array:
    log.add(what, values)
    return values


def _play(backend: Backend, case: RanksCase, logs: list[Log], group: LocalGroup) -> list[Text]:
    def agree(what: str, own: Array) -> Array:
        decided = np.asarray(backend.host(AGREE)(what, own, group))
        return _note(logs[group.rank], what, decided)

    return play_rounds(Decisions(ORACLE, case.run, agree, LastBits(group.rank, case.seed)))


def _compare(logs: list[Log], alone: Log) -> None:
    for rank, log in enumerate(logs):
        for (number, what, got), (_, _, expected) in zip(log.decided, alone.decided, strict=False):
            because = "as the first rank decides alone"
            same = np.array_equal(got, expected)
            require(same, f"{what} of round {number} on rank {rank}", got.tolist(), f"{expected.tolist()}, {because}")


PROPERTIES = (state("ranks", last_bits_of_a_rank_change_no_decision, ranks_cases, (AGREE,), "P57"),)
