"""What a run is compared with: one prompt decoded token by token, under the rules of ending that the engine has."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from specsim.host.choice import UNCONSTRAINED, TokenChoice
from specsim.host.grammar import Grammar, allow_everything, is_allowed
from specsim.host.logit_rules import NO_RULES, ruled_logits
from specsim.host.stopping import Finish, FinishReason, StopRules, find_stop
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.description import ScoredTokenByToken, TokenByToken
from specsim.simulation.models.ground_truth import greedy_choice
from specsim.simulation.requests import TOKEN_TEXT, PromptChunk
from specsim.simulation.worker import Worker

ROW = 1


class Decoder(Protocol):
    """A text that grows by one token at a time."""

    def append(self, token: int) -> None:
        """Add one token."""

    def next_token(self) -> int:
        """Return the greedy choice of the token that comes next."""


class ExactDecoder:
    """A model's own decoding without batches, pools and drafts, its logits changed as a request wants them.

    What is added once a token was chosen is the output, which the rules of the choice follow.
    """

    def __init__(self, text: TokenByToken, choice: TokenChoice = UNCONSTRAINED) -> None:
        self._text = text
        self._choice = choice
        self._output: list[int] | None = None

    def append(self, token: int) -> None:
        """Add one token."""
        self._text.append(token)
        if self._output is not None:
            self._output.append(token)

    def next_token(self) -> int:
        """Return the token of the largest logit among those that the request's grammar allows."""
        self._output = self._output or []
        rules, text = self._choice.rules or NO_RULES, self._text
        logits = text.next_logits()
        if rules.has_strengths and isinstance(text, ScoredTokenByToken):
            logits = text.next_sampling_logits()
        if self._choice.processor is not None:
            logits = self._choice.processor(np.array([logits]))[0].tolist()
        if self._choice.rules is not None:
            logits = ruled_logits(rules, self._choice.stops, self._output, logits)
        return greedy_choice(logits, _allowed(self._choice.matcher, len(logits)))


class PrefillDecoder:
    """A model's prefill, asked for one token after another: no draft, no tree, and one request alone in the pools.

    Parameters
    ----------
    worker : Worker
        A worker none of whose slots and rows has an owner; row 1 is decoded in, position p lies in slot p+1.
    choice : TokenChoice
        How tokens are chosen.
    """

    def __init__(self, worker: Worker, choice: TokenChoice = UNCONSTRAINED) -> None:
        self._worker = worker
        self._choice = choice
        self._tokens: list[int] = []
        self._num_run = self._num_prompt = 0
        worker.assign_choices([ROW], [choice])

    def append(self, token: int) -> None:
        """Add one token."""
        self._tokens.append(token)

    def next_token(self) -> int:
        """Run what has not run and return the target's choice after it.

        SWA slots are used in turn, so that no more of a text runs at once than they hold beside the window before it.
        """
        window, num_swa_slots = self._worker.model.description.window, self._worker.sizes.num_swa_slots - 1
        most = num_swa_slots - window + 1 if window else len(self._tokens)
        token, self._num_prompt = 0, self._num_prompt or len(self._tokens)
        if self._choice.rules is not None:
            choice = replace(self._choice, output=tuple(self._tokens[self._num_prompt :]))
            self._worker.assign_choices([ROW], [choice])
        while self._num_run < len(self._tokens):
            start, end = self._num_run, min(len(self._tokens), self._num_run + most)
            swa_slots = tuple(1 + position % num_swa_slots for position in range(start, end)) if window else ()
            self._worker.assign_slots([SlotRange(ROW, start, end, tuple(range(start + 1, end + 1)), swa_slots)])
            (token,) = self._worker.prefill([ROW], [PromptChunk(tuple(self._tokens), start, end)])
            self._num_run = end
        return token


def decoder_for(worker: Worker, choice: TokenChoice = UNCONSTRAINED) -> Decoder:
    """Return a decoder of a worker's model: its own exact one, or else its prefill on the idle worker."""
    token_by_token = worker.model.description.token_by_token
    return PrefillDecoder(worker, choice) if token_by_token is None else ExactDecoder(token_by_token(), choice)


def decode_alone(
    decoder: Decoder, prompt: Sequence[int], rules: StopRules, matcher: Grammar | None = None
) -> tuple[list[int], Finish]:
    """Return the output and its end, testing the rules after every single token.

    ``matcher`` is that of the decoder's choice; it reads every token that does not end the output.
    """
    for token in prompt:
        decoder.append(token)
    output: list[int] = []
    while True:
        token = decoder.next_token()
        finish = find_stop(rules, output, [token], len(prompt), TOKEN_TEXT)
        output.append(token)
        if finish is None and matcher is not None:
            matcher.accept(token)
            if matcher.is_terminated():
                finish = Finish(FinishReason.GRAMMAR, len(output), "".join(map(TOKEN_TEXT, output)))
        if finish is not None:
            return output, finish
        decoder.append(token)


def _allowed(matcher: Grammar | None, vocab_size: int) -> list[int] | None:
    """Return the tokens that a matcher allows, None for all of them."""
    if matcher is None or matcher.is_terminated():
        return None
    (row,) = allow_everything(1, vocab_size)
    matcher.fill_bitmask(row)
    return [token for token in range(vocab_size) if is_allowed(row, token)]
