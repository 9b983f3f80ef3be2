"""What a worker tells of the tokens that it outputs."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.operations.protocol import Operations
from specsim.reference.worker.choices import ChoiceRows
from specsim.reference.worker.sampling import distribution_logits
from specsim.simulation.logprobs import Told, most_top, told_of
from specsim.simulation.models.batches import TargetOutput


def tell(
    row: Array,
    output: TargetOutput[Array],
    accept_index: Array,
    predict: Array,
    choices: ChoiceRows,
    operations: Operations[Array],
) -> Told:
    """Score the output tokens of the requests that ask for it.

    Parameters
    ----------
    row : int64 [request]
        Row of each request.
    output : TargetOutput
        The logits that the tokens were chosen from, as processor and grammar left them.
    accept_index : int32 [request, draft+1]
        Accepted paths, before anything is compacted.
    predict : int32 [request*node]
        Output token that follows each accepted node.

    Notes
    -----
    Source: semantics C.8.
    """
    asked = choices.of(row)
    num_top = most_top(asked)
    if num_top is None:
        return ((),) * len(row)
    scored = operations.gather_output_logprobs(
        logits=distribution_logits(output),
        accept_index=accept_index,
        predict=predict,
        temperature=choices.parameters(row)["temperature"],
        token_ids=np.zeros((len(row), 0), dtype=np.int64),
        num_top=num_top,
    )
    return told_of(asked, accept_index, predict, scored)
