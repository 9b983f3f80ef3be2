"""Where a request ends, and why: the same whether its tokens come one by one or in accepted runs.

The text of an output is the texts of its tokens, one after another; ``TokenText`` gives the text of one token.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from specsim.counts import count_drafts
from specsim.rejection import Reason, SpecRejection, check_range

TokenText = Callable[[int], str]


class FinishReason(StrEnum):
    """Why a request ended; where one token meets several conditions, the first of this list is the reason."""

    ABORT = "abort"
    STOP_STRING = "stop_string"
    EOS = "eos"
    STOP_TOKEN = "stop_token"
    LENGTH = "length"
    CONTEXT = "context"
    GRAMMAR = "grammar"


@dataclass(frozen=True)
class StopRules:
    """When a request ends.

    Parameters
    ----------
    max_new_tokens : int
        Output tokens at most.
    eos_tokens, stop_tokens : frozenset of int
        Tokens that end the output; they are its last token.
    stop_strings : tuple of str
        Texts that end the output at the token that completes one of them; the text ends before it.
    min_new_tokens : int
        While the output, with the token in question, is shorter, no token and no string ends it.
    context_limit : int or None
        Positions of prompt and output together at most.
    is_aborted : bool
        The next token is the last one, whatever it is.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: no token asked for, or a negative minimum; BAD_CONFIGURATION: the minimum is above the
        maximum, or a stop string is empty.
    """

    max_new_tokens: int
    eos_tokens: frozenset[int] = frozenset()
    stop_tokens: frozenset[int] = frozenset()
    stop_strings: tuple[str, ...] = ()
    min_new_tokens: int = 0
    context_limit: int | None = None
    is_aborted: bool = False

    def __post_init__(self) -> None:
        check_range(Reason.COUNT_OUT_OF_RANGE, "max_new_tokens", self.max_new_tokens, "it decodes", 1)
        check_range(Reason.COUNT_OUT_OF_RANGE, "min_new_tokens", self.min_new_tokens, "it counts", 0)
        because = "the output cannot be longer than max_new_tokens"
        check_range(Reason.BAD_CONFIGURATION, "min_new_tokens", self.min_new_tokens, because, most=self.max_new_tokens)
        if "" in self.stop_strings:
            because = "every text contains the empty one"
            raise SpecRejection(Reason.BAD_CONFIGURATION, "stop_strings", self.stop_strings, "no empty string", because)


@dataclass(frozen=True)
class Finish:
    """The end of a request.

    ``num_tokens`` is the length of the output: all tokens up to and including the one that ends it, and none after.
    ``text`` is their text, cut before the stop string if there is one. ``matched`` is the token or string that stopped.
    """

    reason: FinishReason
    num_tokens: int
    text: str
    matched: int | str | None = None


@dataclass(frozen=True)
class AppendedRun:
    """A run that was appended whole and cut afterwards.

    ``appended`` is everything that was accepted, ``emitted`` what the user gets; ``num_committed`` counts the tokens
    after the stop too, because their KV is written.
    """

    appended: tuple[int, ...]
    emitted: tuple[int, ...]
    finish: Finish | None
    num_committed: int


def find_stop(
    rules: StopRules, output: Sequence[int], accepted_tokens: Sequence[int], prompt_length: int, text_of: TokenText
) -> Finish | None:
    """Return where a request ends within the tokens just accepted, or None if it goes on after them.

    Parameters
    ----------
    rules : StopRules
        When the request ends.
    output : sequence of int
        Its tokens so far, none of which ended it.
    accepted_tokens : sequence of int
        The run that a verify output, bonus token included.
    prompt_length : int
        Tokens of the prompt.
    text_of : callable
        Text of one token.

    Notes
    -----
    The first token that meets a condition ends the request. Strings are searched in a window of the run and of as much
    text before it as a string that ends in the run can reach back. Source: semantics B.11.
    """
    window = _text_before(rules, output, text_of)
    for place, token in enumerate(accepted_tokens):
        num_tokens = len(output) + place + 1
        before = len(window)
        window += text_of(token) if rules.stop_strings else ""
        reason, matched, num_cut = _condition(rules, num_tokens, prompt_length, token, window, before)
        if reason is not None:
            text = "".join(map(text_of, (*output, *accepted_tokens[: place + 1])))
            return Finish(reason, num_tokens, text[: len(text) - num_cut], matched)
    return None


FindStop = Callable[[StopRules, Sequence[int], Sequence[int], int, TokenText], Finish | None]
"""As ``find_stop``."""


def append_run(
    rules: StopRules,
    output: Sequence[int],
    row_tokens: Sequence[int],
    num_accepted_tokens: int,
    num_committed: int,
    prompt_length: int,
    text_of: TokenText,
    *,
    find_stop: FindStop = find_stop,
) -> AppendedRun:
    """Append one verify's tokens and cut the output where the request ends, as V2 does after the verify.

    ``row_tokens`` is the request's row of the verify's output; what lies past the count was not accepted and is not
    read. ``num_committed`` counts positions before the verify.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: no token, or more than the row has.

    Notes
    -----
    Source: semantics B.11.
    """
    because = "a verify outputs its bonus token, and the row holds all of them"
    check_range(Reason.COUNT_OUT_OF_RANGE, "num_accepted_tokens", num_accepted_tokens, because, 1, len(row_tokens))
    accepted = row_tokens[:num_accepted_tokens]
    appended = (*output, *accepted)
    finish = find_stop(rules, output, accepted, prompt_length, text_of)
    emitted = appended if finish is None else appended[: finish.num_tokens]
    return AppendedRun(appended, emitted, finish, num_committed + num_accepted_tokens)


def play_runs(
    rules: StopRules, runs: Sequence[Sequence[int]], prompt_length: int, text_of: TokenText
) -> tuple[tuple[int, ...], Finish | None]:
    """Return the output of a request whose verifies accept these runs, and its end, if it ends within them.

    Notes
    -----
    Source: semantics B.11.
    """
    output: tuple[int, ...] = ()
    for accepted in runs:
        finish = find_stop(rules, output, accepted, prompt_length, text_of)
        output += tuple(accepted)
        if finish is not None:
            return output[: finish.num_tokens], finish
    return output, None


def clip_drafts(rules: StopRules, num_tokens: int, num_drafts: int) -> int:
    """Return how many drafts may be verified after ``num_tokens`` tokens of prompt and output.

    All of them accepted, and the bonus token, fill the context exactly; the bonus token's KV is never written.

    Notes
    -----
    Source: semantics B.11.
    """
    if rules.context_limit is None:
        return num_drafts
    room: int = count_drafts(rules.context_limit - num_tokens)
    return max(0, min(num_drafts, room))


def _text_before(rules: StopRules, output: Sequence[int], text_of: TokenText) -> str:
    """Return the end of the output's text that a stop string which ends later can begin in."""
    longest = max(map(len, rules.stop_strings), default=1)
    tail = ""
    for token in reversed(output):
        if len(tail) >= longest - 1:
            break
        tail = text_of(token) + tail
    return tail


def _condition(
    rules: StopRules, num_tokens: int, prompt_length: int, token: int, window: str, before: int
) -> tuple[FinishReason | None, int | str | None, int]:
    """Return the condition that the last token meets, what matched, and how much text it cuts off the end."""
    if rules.is_aborted:
        return FinishReason.ABORT, None, 0
    if num_tokens >= rules.min_new_tokens:
        starts = [(window.find(stop, max(0, before - len(stop) + 1)), stop) for stop in rules.stop_strings]
        found = [(start, stop) for start, stop in starts if start >= 0]
        if found:
            start, stop = min(found, key=lambda match: match[0])
            return FinishReason.STOP_STRING, stop, len(window) - start
        if token in rules.eos_tokens:
            return FinishReason.EOS, token, 0
        if token in rules.stop_tokens:
            return FinishReason.STOP_TOKEN, token, 0
    if num_tokens >= rules.max_new_tokens:
        return FinishReason.LENGTH, None, 0
    if rules.context_limit is not None and prompt_length + num_tokens >= rules.context_limit:
        return FinishReason.CONTEXT, None, 0
    return None, None, 0
