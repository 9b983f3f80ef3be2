"""Stops inside a verify, as V1 handles them: accepted paths end at the stop, and the rest is freed like a rejection."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.counts import count_drafts
from specsim.host.grammar import AdvanceGrammar, Grammar, advance_grammar
from specsim.host.stopping import FindStop, Finish, FinishReason, StopRules, TokenText, find_stop
from specsim.rejection import Reason, SpecRejection, check_length


@dataclass(frozen=True)
class Truncation:
    """What V1 goes on with after looking for stops, and what it counts.

    Two counts of one verify stand side by side: ``batch_num_accepted_drafts`` int32 [request] is what is left of the
    rows, and goes into the counters of the batch, slots and lengths; ``request_num_accepted_drafts`` int32 [request] is
    what the target accepted, and goes into the counters of each request. ``appended`` holds the output tokens of each
    request, ``finishes`` where it ended, if it did.
    """

    accept_index: NDArray[np.int32]
    batch_num_accepted_drafts: NDArray[np.int32]
    request_num_accepted_drafts: NDArray[np.int32]
    appended: tuple[tuple[int, ...], ...]
    finishes: tuple[Finish | None, ...]


def truncate_at_stop(
    accept_index: NDArray[np.int32],
    predict: NDArray[np.int32],
    rules: Sequence[StopRules],
    outputs: Sequence[Sequence[int]],
    prompt_lengths: Sequence[int],
    text_of: TokenText,
    grammars: Sequence[Grammar | None] | None = None,
    *,
    find_stop: FindStop = find_stop,
    advance_grammar: AdvanceGrammar = advance_grammar,
) -> Truncation:
    """Cut every accepted path after the node whose token ends its request.

    Parameters
    ----------
    accept_index : int32 [request, draft+1]
        Accepted paths, padding -1; left as it is.
    predict : int32 [node_total]
        Token after each node; defined on the paths.
    rules, outputs, prompt_lengths : sequence
        One entry a request: when it ends, its tokens so far, tokens of its prompt.
    text_of : callable
        Text of one token.
    grammars : sequence or None
        The matcher of each request that has one. It is advanced by the tokens that do not end the request, and the
        token that completes its text ends the request.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: not one entry a request; MALFORMED_PATH: a row without a root, or with an entry after
        padding.

    Notes
    -----
    A root is never cut off, so every request outputs at least one token. Source: semantics B.11.
    """
    for what, got in (("rules", rules), ("outputs", outputs), ("prompt_lengths", prompt_lengths)):
        check_length(f"len({what})", len(got), len(accept_index))
    truncated = np.full_like(accept_index, -1)
    appended: list[tuple[int, ...]] = []
    finishes: list[Finish | None] = []
    original: list[int] = []
    for request, row in enumerate(accept_index):
        path = _path_of(row, request)
        tokens = predict[path].tolist()
        finish = find_stop(rules[request], outputs[request], tokens, prompt_lengths[request], text_of)
        grammar = None if grammars is None else grammars[request]
        if grammar is not None:
            finish = end_of_grammar(grammar, outputs[request], tokens, finish, text_of, advance_grammar)
        kept = len(tokens) if finish is None else finish.num_tokens - len(outputs[request])
        truncated[request, :kept] = path[:kept]
        appended.append(tuple(tokens[:kept]))
        finishes.append(finish)
        original.append(count_drafts(len(path)))
    return Truncation(
        accept_index=truncated,
        batch_num_accepted_drafts=np.array([count_drafts(len(tokens)) for tokens in appended], dtype=np.int32),
        request_num_accepted_drafts=np.array(original, dtype=np.int32),
        appended=tuple(appended),
        finishes=tuple(finishes),
    )


def end_of_grammar(
    grammar: Grammar,
    output: Sequence[int],
    tokens: Sequence[int],
    finish: Finish | None,
    text_of: TokenText,
    advance_grammar: AdvanceGrammar = advance_grammar,
) -> Finish | None:
    """Advance a matcher up to the end of its request, which comes earlier if the matcher's text is complete.

    ``output`` is what came before the tokens, ``finish`` where they end the request without the grammar.
    """
    continuing = tokens if finish is None else tokens[: finish.num_tokens - len(output)][:-1]
    num_complete = advance_grammar(grammar, continuing)
    if num_complete is None:
        return finish
    text = "".join(map(text_of, (*output, *tokens[:num_complete])))
    return Finish(FinishReason.GRAMMAR, len(output) + num_complete, text)


def _path_of(row: NDArray[np.int32], request: int) -> NDArray[np.int32]:
    length = int((row >= 0).sum())
    if length == 0 or (row[:length] < 0).any():
        expected, because = "a root, then nodes, then -1", "valid entries form a prefix of the row"
        raise SpecRejection(Reason.MALFORMED_PATH, f"accept_index[{request}]", row.tolist(), expected, because)
    return row[:length]
