"""Starts ranks as processes and collects what they return; the store that they meet in lives here, in none of them."""

import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any

import torch
from torch._C._distributed_c10d import TCPStore

from specsim.gpu.worker.ranks import ProcessGroup, gone

HOST = "127.0.0.1"
START_S = 120.0
"""How long ranks may take to start, beside their time limit."""

Run = Callable[[ProcessGroup], Any]


@dataclass(frozen=True)
class Ended:
    """What became of a rank: what it returned, or why it failed; one that disappeared has neither."""

    returned: Any = None
    failure: str | None = None
    has_disappeared: bool = False


def run_ranks(
    run: Run,
    size: int,
    backend: str = "gloo",
    time_limit_s: float = 60.0,
    most_s: float = 600.0,
    preload: Sequence[str] = (),
) -> list[Ended]:
    """Run a function in so many processes, a rank each, and return what became of them.

    Parameters
    ----------
    run : callable
        Takes its rank's group; it can be sent to another process.
    backend : str
        ``gloo`` on the CPU, or ``nccl`` with a GPU a rank.
    time_limit_s : float
        How long a rank may be silent until the others go on without it.
    most_s : float
        How long everything may take; whatever runs then is ended.
    preload : sequence of str
        Modules that are imported once for all ranks.
    """
    store = TCPStore(HOST, 0, None, True, wait_for_workers=False)
    context = _context(backend, preload)
    start = partial(_run_one, run, size, backend, time_limit_s, store.port)
    receivers: dict[int, Connection] = {}
    processes = []
    for rank in range(size):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=start, args=(rank, sender), daemon=True)
        process.start()
        sender.close()
        receivers[rank] = receiver
        processes.append(process)
    ended = _collect(receivers, store, monotonic() + START_S + most_s)
    for process in processes:
        process.join(1.0)
        if process.is_alive():
            process.kill()
            process.join()
    return [ended.get(rank, Ended(has_disappeared=True)) for rank in range(size)]


def _context(backend: str, preload: Sequence[str]) -> Any:
    """Return how processes start: as copies of one that has imported everything, or afresh where a GPU may be used."""
    if backend == "nccl" or torch.cuda.is_available():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *preload])
    return context


def _collect(receivers: dict[int, Connection], store: TCPStore, end: float) -> dict[int, Ended]:
    """Return what ranks send until all have ended or it is too late, and tell the others of each that has."""
    ended: dict[int, Ended] = {}
    waiting = {receiver: rank for rank, receiver in receivers.items()}
    while waiting and monotonic() < end:
        for ready in wait(list(waiting), max(0.0, end - monotonic())):
            receiver = next(one for one in waiting if one is ready)
            rank = waiting.pop(receiver)
            try:
                ended[rank] = receiver.recv()
            except EOFError:
                ended[rank] = Ended(has_disappeared=True)
            store.set(gone(rank), "")
    return ended


def _run_one(run: Run, size: int, backend: str, time_limit_s: float, port: int, rank: int, sender: Connection) -> None:
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
    store = TCPStore(HOST, port, None, False)
    group = ProcessGroup(store, rank, size, backend, time_limit_s, device)
    try:
        sender.send(Ended(run(group)))
    except Exception as failure:
        sender.send(Ended(failure=f"{type(failure).__name__}: {failure}"))
    finally:
        group.close()
