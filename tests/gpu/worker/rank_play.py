"""What a rank plays in a process of its own: engines on some requests, or none, and faults on the way."""

import os
import time
from dataclasses import dataclass

import numpy as np
import torch

from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.worker.ranks import LONGEST_PAUSE_S, TorchWords
from specsim.properties.runs.drafted import V1_WORKERS, V2_WORKERS, drafted_by
from specsim.properties.runs.play import loop_on
from specsim.properties.runs.ranks.laws_replicated import OfAnotherRank, with_last_bits
from specsim.properties.runs.ranks.padded_runs import padded_play, plain_play, waiting_of
from specsim.properties.runs.scenario import Arrival, scenario_of
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.ranks import Meeting, run_rank
from specsim.simulation.replicated_model import OneVoiceModel
from specsim.simulation.requests import Request

MODEL = HashModel(32, 3, 0.8)
LARGEST = Arrival((1, 1, 1), 20, None, 0)
CHAIN, TREE = SpecConfig(1, 2, 3), SpecConfig(2, 2, 5)


@dataclass(frozen=True)
class Case:
    """A run of a worker: how many requests each rank has, and how many ranks share the rows of an attention group."""

    name: str
    config: SpecConfig
    requests: tuple[int, ...]
    pool: PoolKind = PoolKind.MHA
    attn_tp_size: int = 1

    @property
    def run(self):
        """The run, with room for the largest requests of any rank."""
        return drafted_by(self.name, scenario_of(self.config, MODEL, (LARGEST,) * 4, 4, 0), target_pool=self.pool)

    def asked(self, rank):
        vocab_size = self.run.model.vocab_size
        prompts = [[token % vocab_size for token in (rank, 7, 3 + one)[: 2 + one % 2]] for one in range(4)]
        return [Request(one, prompts[one], 4 + 2 * one) for one in range(self.requests[rank])]

    def alone(self, rank):
        """Return what the requests of a rank come to without any other."""
        return played(Engine(plain_play(self.run).worker, 4), self.asked(rank), Engine.run)


def every_worker(*requests, attn_tp_size=1):
    """Return a case of each worker, on chains and trees in turn; every other one has an idle rank."""
    cases = []
    for number, name in enumerate((*V1_WORKERS, *V2_WORKERS)):
        is_tree = number % 2 and not name.startswith("frozen")
        cases.append(
            Case(name, TREE if is_tree else CHAIN, requests[number % len(requests)], attn_tp_size=attn_tp_size)
        )
    return tuple(cases)


@dataclass(frozen=True)
class Play:
    """What all ranks play, case after case; one may go away or fall silent in a forward of the last."""

    cases: tuple[Case, ...]
    is_on_device: bool = False
    gone: int | None = None
    silent: int | None = None
    silent_s: float = 0.0
    fault_at: int = 5

    def __call__(self, group):
        """Play one rank; return for each case what its requests came to and its forwards by kind, and whom it lost."""
        outcomes = []
        for case in self.cases:
            whose = load("specsim.gpu" if self.is_on_device else "specsim.reference")
            play, padded = padded_play(case.run, whose, has_own_worker=self.is_on_device)
            meeting = Meeting(group, padded.run_padding, case.attn_tp_size)
            padded.agree, padded.look = meeting, self.looking(group, meeting, case is self.cases[-1])
            reported = played(
                Engine(play.worker, 4), case.asked(group.rank), lambda engine, own=meeting: run_rank(engine, own)
            )
            outcomes.append((reported, {kind.name: count for kind, count in padded.forwards.items()}))
        return outcomes, [str(one) for one in group.lost]

    def looking(self, group, meeting, has_fault):
        """Gather the rows of every forward; the rank that has a fault goes away or is silent before one of them."""
        seen = []

        def look(input_ids):
            seen.append(len(input_ids))
            if has_fault and len(seen) == self.fault_at:
                if group.rank == self.gone:
                    os._exit(1)
                if group.rank == self.silent:
                    be_silent(self.silent_s)
            meeting.gather(input_ids.cpu().numpy() if self.is_on_device else input_ids)

        return look


@dataclass(frozen=True)
class ReplicatedPlay:
    """What ranks play that run the same requests, and of which each but the first would say other tokens.

    Or of which the others' values differ by last bits, where the best tokens tie.
    """

    cases: tuple[Case, ...]
    is_on_device: bool = False
    has_last_bits: bool = False

    def __call__(self, group):
        outcomes = []
        for case in self.cases:
            run = case.run
            if self.is_on_device:
                of_rank = last_bits_on_device if self.has_last_bits else torch.roll
                own = OfAnotherRank(load_on_device(run.model), group.rank, of_rank)
                worker = load("specsim.gpu").workers[run.worker_name](
                    run.drafting.sizes, OneVoiceModel(own, group, TorchWords()), run.sizes()
                )
            else:
                worker = self.worker_of(case, group.rank, lambda model: OneVoiceModel(model, group))
            outcomes.append(played(Engine(worker, 4), case.asked(0), Engine.run))
        return outcomes

    def worker_of(self, case, rank, wrap=lambda model: model):
        """Return the worker of a rank on the CPU."""
        of_rank = with_last_bits if self.has_last_bits else np.roll
        return loop_on(case.run, wrap=lambda model: wrap(OfAnotherRank(model, rank, of_rank)), **waiting_of(case.run))

    def alone(self, case):
        """Return what the requests of a case come to on the first rank without any other."""
        return played(Engine(self.worker_of(case, 0), 4), case.asked(0), Engine.run)


def last_bits_on_device(values, rank, axis):
    return torch.from_numpy(with_last_bits(values.cpu().numpy(), rank, axis)).to(values.device)


def be_silent(pause_s):
    """Be silent for so long, counted in pauses as those count who wait: on a busy machine it is longer."""
    for _ in range(round(pause_s / LONGEST_PAUSE_S)):
        time.sleep(LONGEST_PAUSE_S)


def played(engine, requests, run):
    for request in requests:
        engine.submit(request)
    run(engine)
    finished = engine.scheduler.finished
    return sorted((one.request_id, tuple(one.output), one.finish_reason, one.counters) for one in finished)
