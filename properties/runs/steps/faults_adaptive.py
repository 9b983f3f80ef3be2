"""Faults that show when the number of steps changes while an engine runs."""

from typing import Any

from specsim.properties.mutants.record import Function, Mutant, Named, wrapped


def _stride_of_the_first_call(correct: Function) -> Function:
    """Inject a fault that keeps the query offsets of the first forward over nodes, as a captured graph would."""
    kept: dict[str, int] = {}

    def call(arguments: Named) -> Any:
        outputs = correct(**arguments)
        num_requests = len(arguments["seq_lens"])
        if num_requests == 0:
            return outputs
        width = kept.setdefault("width", arguments["num_tokens"] // num_requests)
        offsets = outputs.cu_seqlens_q.copy()
        offsets[:] = [place * width for place in range(num_requests + 1)]
        return outputs._replace(cu_seqlens_q=offsets)

    return wrapped(correct, call)


MUTANTS = (
    Mutant(
        "OWN-452",
        "target_verify_metadata",
        "Query offsets keep the width of the first call.",
        _stride_of_the_first_call,
    ),
)
