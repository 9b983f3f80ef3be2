"""Ranks that are processes: what they say travels through a store, and rows of a forward through ``torch.distributed``.

Gloo gathers rows on the CPU, NCCL on one GPU a rank. A rank that is late is given up by all others at once:
the first that misses it says so in the store, and everybody obeys what stands there.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from time import sleep
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch._C._distributed_c10d import PrefixStore, Store

from specsim.rejection import Reason, SpecRejection
from specsim.simulation.ranks import LostRank

NO_ONE = "none"
"""What stands in the store where all ranks have answered."""

KEPT_ROUNDS = 4
"""Rounds whose answers stay in the store, for late ranks."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.0005, 0.02
"""How long a rank pauses before it looks again for what others say."""

MOST_ATTEMPTS = 4
"""How often ranks that are all there gather rows again before a failure counts."""


class ProcessGroup:
    """One rank among processes.

    Parameters
    ----------
    store : Store
        Where ranks leave what they say; it outlives each of them.
    rank, size : int
        Which rank this is, and of how many.
    backend : str
        ``gloo`` or ``nccl``.
    time_limit_s : float
        How long a rank may be silent, counted in the pauses of those that wait for it: where all of them stand still,
        or share a machine that has too much to do, no time passes.
    device : torch.device
        Where rows are gathered.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        backend: str = "gloo",
        time_limit_s: float = 60.0,
        device: torch.device | None = None,
    ) -> None:
        self.rank = rank
        self.lost: list[LostRank] = []
        self._store = store
        self._backend = backend
        self._limit = timedelta(seconds=time_limit_s)
        self._device = device or torch.device("cpu")
        self._members = tuple(range(size))
        self._connected = ""
        self._num_failures = 0
        self._num_rounds = 0

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks that are left."""
        return self._members

    def exchange(self, what: str, values: Sequence[int]) -> Mapping[int, tuple[int, ...]]:
        """Return the numbers of all ranks that are left; a silent one is given up."""
        return {rank: tuple(said) for rank, said in self._meet(what, [int(value) for value in values], 1).items()}

    def sum(self, what: str, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum over all ranks that are left; if one is lost meanwhile, over the others again."""
        num_attempts = 0
        while True:
            members = self._members
            total, failure = self._reduce(values)
            if failure is not None:
                # NOTE: others that wait inside of the collective see this connection end, and need not wait longer.
                self._disconnect()
            # NOTE: a rank that waits for a silent one inside of the collective comes here a whole time limit later.
            answers = self._meet(f"{what} summed", [int(failure is None)], 2)
            if self._members == members and all(one[0] for one in answers.values()):
                return total
            num_attempts = num_attempts + 1 if self._members == members else 0
            if failure is not None and num_attempts == MOST_ATTEMPTS:
                raise failure
            self._num_failures += 1
            self._disconnect()

    def close(self) -> None:
        """Leave the others, who will not wait."""
        self._disconnect()

    def _reduce(self, values: NDArray[np.int64]) -> tuple[NDArray[np.int64], RuntimeError | None]:
        try:
            self._connect()
            rows = torch.from_numpy(values).to(self._device, copy=True)
            dist.all_reduce(rows)
            return rows.cpu().numpy(), None
        except RuntimeError as failure:
            # NOTE: frames of the collective hold its group, whose connections end with the last of its holders.
            return values, failure.with_traceback(None)

    def _connect(self) -> None:
        """Connect those that are left, under a name that no group before had: all have seen as many of them fail."""
        name = f"group {'-'.join(map(str, self._members))} after {self._num_failures}"
        if self._connected == name:
            return
        self._disconnect()
        dist.init_process_group(
            self._backend,
            store=PrefixStore(name, self._store),
            rank=self._members.index(self.rank),
            world_size=len(self._members),
            timeout=self._limit,
        )
        self._connected = name

    def _disconnect(self) -> None:
        if self._connected:
            self._connected = ""
            dist.destroy_process_group()

    def _meet(self, what: str, values: list[int], patience: int) -> dict[int, list[int]]:
        """Say something in the next round and return what everybody says there, in order of ranks."""
        number = self._num_rounds
        self._num_rounds += 1
        self._store.set(_place(number, self.rank), json.dumps([what, values]))
        missing = self._wait_for(number, self._members, patience)
        said_lost = self._store.compare_set(_decision(number), "", ",".join(map(str, missing)) or NO_ONE).decode()
        if number >= KEPT_ROUNDS:
            self._store.delete_key(_place(number - KEPT_ROUNDS, self.rank))
        if said_lost != NO_ONE:
            self._give_up([int(rank) for rank in said_lost.split(",")], what)
        answers: dict[int, list[int]] = {}
        for rank in self._members:
            other, said = json.loads(self._store.get(_place(number, rank)))
            if other != what:
                raise _refuse(f"collective of rank {rank}", other, what, "all ranks enter the same ones in order")
            answers[rank] = said
        return answers

    def _wait_for(self, number: int, ranks: Sequence[int], patience: int) -> list[int]:
        """Return the ranks that do not answer in time, or are known to be gone.

        Asking again and again is quieter than a wait of the store, which reports every time that runs out.
        """
        left_s = patience * self._limit.total_seconds()
        missing, pause = set(ranks), FIRST_PAUSE_S
        while True:
            missing = {rank for rank in missing if not self._store.check([_place(number, rank)])}
            if not missing or left_s <= 0:
                break
            if all(self._store.check([gone(rank)]) for rank in missing):
                missing = {rank for rank in missing if not self._store.check([_place(number, rank)])}
                break
            sleep(pause)
            left_s -= pause
            pause = min(2 * pause, LONGEST_PAUSE_S)
        return sorted(missing)

    def _give_up(self, ranks: Sequence[int], what: str) -> None:
        if self.rank in ranks:
            raise _refuse(f"rank {self.rank}", "late", "in time", f"the others went on without it in {what}")
        self.lost += [LostRank(rank, what) for rank in ranks]
        self._members = tuple(rank for rank in self._members if rank not in ranks)


_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer types by the bytes of an element."""


def torch_pad(values: Any, axis: int, count: int, fill: Any) -> Any:
    """Put so many entries of a value after a tensor, along an axis."""
    shape = [*values.shape]
    shape[axis] = count
    return torch.cat([values, values.new_full(shape, fill)], dim=axis)


class TorchWords:
    """Says rows of tensors in words, bit for bit; see ``specsim.simulation.replicated_model``."""

    def words_of(self, values: torch.Tensor) -> NDArray[np.int64]:
        """Return the elements of a tensor, each as a word."""
        return values.contiguous().view(_INTEGERS[values.element_size()]).long().flatten().cpu().numpy()

    def values_of(self, words: NDArray[np.int64], like: torch.Tensor) -> torch.Tensor:
        """Return the tensor that words say, in the shape and of the type of another."""
        bits = torch.from_numpy(words).to(like.device).to(_INTEGERS[like.element_size()])
        return bits.view(like.dtype).view(like.shape)


def _place(number: int, rank: int) -> str:
    return f"round {number} of {rank}"


def gone(rank: int) -> str:
    """Return what the parent of a rank leaves in the store when the rank has ended."""
    return f"{rank} is gone"


def _decision(number: int) -> str:
    return f"lost in round {number}"


def _refuse(what: str, got: str, expected: str, because: str) -> SpecRejection:
    return SpecRejection(Reason.WRONG_PHASE, what=what, got=got, expected=expected, because=because)
