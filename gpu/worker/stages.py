"""Draft, target and acceptance of a V1 batch: between them the host writes slots and changes logits."""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from specsim.assertion import require_present
from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.carried import device_zeros
from specsim.gpu.worker.choices import ChoiceRows
from specsim.gpu.worker.graphs import Kind
from specsim.gpu.worker.pools import Buffers, Pools
from specsim.gpu.worker.sides import DraftSide
from specsim.gpu.worker.staged import Staged
from specsim.gpu.worker.verify import run_target, verify, verify_keys
from specsim.phases import DraftInput, VerifyInput, VerifyOutput
from specsim.simulation.models.batches import TargetOutput
from specsim.simulation.models.protocol import Model
from specsim.simulation.sides import SideFacts


@dataclass(frozen=True)
class Setting:
    """What all batches of a worker share.

    ``page_size`` counts the slots of a page; ``side`` drafts the trees of a V1 batch, and is None where others do.
    """

    config: SpecConfig
    model: Model[Tensor]
    pools: Pools
    choices: ChoiceRows
    page_size: int
    side: DraftSide | None = None


class Stages:
    """The stages of one batch, run in order, each when it is asked for; the attributes are what they left.

    Once captured, a stage replays, and reads whatever ``load`` has brought.

    Parameters
    ----------
    phase : DraftInput
        What starts the draft.
    window : int64 [request*node]
        Slots that the target writes.
    """

    verify_input: VerifyInput
    output: TargetOutput[Tensor]
    scratch: Buffers
    verify_output: VerifyOutput

    def __init__(self, setting: Setting, kind: Kind, phase: DraftInput, window: Tensor) -> None:
        self._setting = setting
        self._side = require_present("side", setting.side)
        self._config = setting.config.at_steps(kind.num_steps)
        self._kind = kind
        self._phase = phase
        self._window = window
        self._staged = Staged({"draft": self._draft, "target": self._target, "accept": self._accept})

    @classmethod
    def of_padding(cls, setting: Setting, kind: Kind, size: int) -> "Stages":
        """Return the stages of so many padding requests, to be loaded."""
        config = setting.config.at_steps(kind.num_steps)
        padding = _padding(require_present("side", setting.side).facts, size)
        return cls(setting, kind, padding, device_zeros((size * config.num_draft_tokens,), "int64"))

    def load(self, phase: DraftInput, window: Tensor) -> None:
        """Bring a batch to where the stages read it, without waiting; padding stays behind it."""
        live = phase.num_requests
        for field in fields(phase):
            held, given = getattr(self._phase, field.name), getattr(phase, field.name)
            if held is not None:
                held[:live].copy_(given)
                if self._side.facts.zeroes_padding:
                    held[live:].zero_()
        self._phase.req_pool_indices[live:].zero_()
        self._phase.seq_lens[live:].fill_(1)
        self._window[: len(window)].copy_(window)
        self._window[len(window) :].zero_()

    def draft(self) -> None:
        """Draft the trees from what is carried and from the borrowed slots in the map."""
        self._staged.run("draft")

    def target(self) -> None:
        """Run the target over the trees; the slots of the window are in the map."""
        self._staged.run("target")

    def accept(self) -> None:
        """Accept along the trees by logits that are final."""
        self._staged.run("accept")

    def capture(self, pool: Any | None) -> Any:
        """Capture every stage into the memory that all graphs of the worker share, and return that memory."""
        return self._staged.capture(self._phase.req_pool_indices, pool)

    def _draft(self) -> None:
        self.verify_input = self._side.draft(self._phase, self._config, self._setting.pools, lambda: self._window)

    def _target(self) -> None:
        rows, setting = self._phase.req_pool_indices, self._setting
        keys = verify_keys(rows, self.verify_input, setting.pools)
        self.output, self.scratch = run_target(
            rows, self.verify_input, keys, setting.model, setting.pools, *self._kind.wants
        )

    def _accept(self) -> None:
        decided_by = self._setting.choices.deciding(self._kind.is_sampled, self._kind.has_rules)
        self.verify_output = verify(
            self._phase.req_pool_indices, self.verify_input, self.output, self._config.num_steps, *decided_by
        )


def _padding(facts: SideFacts, size: int) -> DraftInput:
    """Return a draft input of padding requests: row 0, length 1."""
    told, count = facts.description, facts.num_candidates
    return facts.draft_input(
        req_pool_indices=device_zeros((size,), "int64"),
        seq_lens=torch.ones(size, dtype=torch.int64, device=DEVICE),
        topk_p=device_zeros((size, count), "float32"),
        topk_index=device_zeros((size, count), "int64"),
        hidden_states=device_zeros((size, told.draft_hidden_width), told.hidden_dtype)
        if told.has_draft_hidden
        else None,
        bonus_tokens=device_zeros((size,), "int32"),
    )
