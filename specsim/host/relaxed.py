"""Which tokens count for the penalties of engines, to compare with: one an iteration, and a late one under overlap."""

from collections.abc import Sequence


def relaxed_output(prompt: Sequence[int], committed: Sequence[Sequence[int]], is_overlapped: bool = False) -> list[int]:
    """Return the tokens that an engine has counted when it launches an iteration.

    Parameters
    ----------
    prompt : sequence of int
        Tokens of the request.
    committed : sequence of sequence of int
        What every turn before this one has output: the token after the prompt, then the tokens of each verify.
    is_overlapped : bool
        The iteration is launched before the turn in front of it is resolved.

    Returns
    -------
    counted : list of int
        One token a launch, the last that the host knows then. Overlapped, that is a turn late, and at the first launch
        it is the last token of the prompt.

    Notes
    -----
    Source: semantics B.4. ``LogitRules(is_exact=False)`` counts as without overlap in every schedule; with exact rules
    all of the output counts.
    """
    known = committed[:-1] if is_overlapped else committed
    late = prompt[-1:] if is_overlapped and committed else ()
    return [*late, *(tokens[-1] for tokens in known)]
