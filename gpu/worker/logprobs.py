"""What a worker on the device reports of the tokens that it outputs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specsim import gpu
from specsim.gpu.arrays import to_numpy
from specsim.gpu.worker.choices import Asked, ChoiceRows
from specsim.gpu.worker.sampling import distribution_logits
from specsim.gpu.worker.transfer import send
from specsim.host.choice import TokenChoice
from specsim.operations.outputs import GatherOutputLogprobsOutputs
from specsim.simulation.logprobs import Reported, listed_tokens, most_top, reported_of
from specsim.simulation.models.batches import TargetOutput


@dataclass(frozen=True)
class Scored:
    """Scores and hidden states that are queued on the device, with what says whose they are."""

    choices: Sequence[TokenChoice]
    accept_index: Tensor
    predict: Tensor
    scores: GatherOutputLogprobsOutputs[Tensor] | None
    states: Tensor | None

    def told(self) -> Reported:
        """Bring them to the host."""
        scores = None if self.scores is None else GatherOutputLogprobsOutputs(*map(to_numpy, self.scores))
        states = None if self.states is None else to_numpy(self.states)
        return reported_of(self.choices, to_numpy(self.accept_index), to_numpy(self.predict), scores, states)


def score(
    asked: Asked,
    device_rows: Tensor,
    output: TargetOutput[Tensor],
    accept_index: Tensor,
    predict: Tensor,
    choices: ChoiceRows,
) -> Scored | None:
    """Queue the reports on output tokens of live requests; None if no request asks for any (semantics C.8).

    Requests that pad the batch stand after those that ask. The paths are those before anything is compacted.
    """
    if not asked.wants_report:
        return None
    live = len(asked.choices)
    num_nodes = len(predict) // max(len(accept_index), 1)
    own = slice(live * num_nodes)
    kept = accept_index[:live].clone(), predict[own].clone()
    num_top, states = most_top(asked.choices), output.reported_states
    scores = None
    if num_top is not None:
        scores = gpu.gather_output_logprobs(
            distribution_logits(output, own),
            *kept,
            _temperatures(asked.choices, choices.gather(device_rows[:live])[0]),
            send(listed_tokens(asked.choices), predict.device),
            num_top,
        )
    if states is not None:
        states = states.index_select(0, kept[0].reshape(-1).clamp(min=0))
    return Scored(asked.choices, *kept, scores, states)


def reported_by(scored: Scored | None, count: int) -> Reported:
    """Return what is reported of the tokens of so many requests."""
    return ((),) * count if scored is None else scored.told()


def _temperatures(asked: Sequence[TokenChoice], temperature: Tensor) -> Tensor:
    """Return float32 [request], 1 for the requests that ask for original log-probabilities."""
    is_original = [choice.has_original_logprobs for choice in asked]
    if not any(is_original):
        return temperature
    return torch.where(send(np.array(is_original), temperature.device), torch.ones_like(temperature), temperature)
