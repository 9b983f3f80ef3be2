"""What a worker on the device tells of the tokens that it outputs."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specsim import gpu
from specsim.gpu.arrays import to_numpy
from specsim.gpu.worker.choices import ChoiceRows
from specsim.gpu.worker.sampling import SAMPLED_DTYPES
from specsim.host.choice import TokenChoice
from specsim.operations.outputs import GatherOutputLogprobsOutputs
from specsim.simulation.logprobs import Told, most_top, told_of
from specsim.simulation.models.batches import TargetOutput


@dataclass(frozen=True)
class Scored:
    """Scores that are queued on the device, with what says whose they are."""

    choices: Sequence[TokenChoice]
    accept_index: Tensor
    predict: Tensor
    scores: GatherOutputLogprobsOutputs[Tensor]

    def told(self) -> Told:
        """Bring them to the host."""
        scores = GatherOutputLogprobsOutputs(*map(to_numpy, self.scores))
        return told_of(self.choices, to_numpy(self.accept_index), to_numpy(self.predict), scores)


def score(
    rows: Sequence[int],
    device_rows: Tensor,
    output: TargetOutput[Tensor],
    accept_index: Tensor,
    predict: Tensor,
    choices: ChoiceRows,
) -> Scored | None:
    """Queue the scores of the output tokens of live requests; None if no request asks for any (semantics C.8).

    Requests that pad the batch stand behind those of ``rows``. The paths are those before anything is compacted.
    """
    asked = choices.of(rows)
    num_top, live = most_top(asked), len(rows)
    if num_top is None:
        return None
    logits = output.logits if output.sampling_logits is None else output.sampling_logits
    num_nodes = len(predict) // max(len(accept_index), 1)
    own = slice(live * num_nodes)
    kept = accept_index[:live].clone(), predict[own].clone()
    scores = gpu.gather_output_logprobs(
        logits[own] if logits.dtype in SAMPLED_DTYPES else logits[own].float(),
        *kept,
        choices.gather(device_rows[:live])[0],
        torch.zeros((live, 0), dtype=torch.int64, device=predict.device),
        num_top,
    )
    return Scored(asked, *kept, scores)


def told_by(scored: Scored | None, count: int) -> Told:
    """Return what is told of the tokens of so many requests."""
    return ((),) * count if scored is None else scored.told()
