"""Rounds of a small engine, decided by operations: its texts are lists, its model is asked prefix by prefix.

What whole runs of several ranks and of several pipeline stages decide by; both look on at every decision.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from specsim.conformance.calls import CallsByName
from specsim.host.sampling import SamplingParameters
from specsim.host.stages import NO_DRAFT
from specsim.properties.host.ranks.strategy import FULL_STEPS_S, Asked, RoundsRun, Text
from specsim.properties.laws.checks import Array
from specsim.properties.strategies.filters import filters_of
from specsim.topology import Topology

Agree = Callable[[str, Array], Array]
"""Takes what a value is, and the value; returns the one to go on with."""

CONFIDENCES = (0.5, 0.5, 0.75)
"""Estimates of a drafter that is not sure, many of which tie; where everything ties it has the first alone."""


class Verified(NamedTuple):
    """The accepted nodes of a request, its root first, and the output tokens, the bonus token last."""

    path: tuple[int, ...]
    tokens: Text


@dataclass(frozen=True)
class Decisions:
    """Decides rounds; every value that another rank may have otherwise goes through one of two functions.

    Parameters
    ----------
    operations : CallsByName
        What decides.
    run : RoundsRun
        Of whose requests.
    agree : callable
        Takes each decision.
    measured : callable
        Takes what a rank computes or measures by itself, before anything is decided by it.
    """

    operations: CallsByName
    run: RoundsRun
    agree: Agree = field(default=lambda _, own: own)
    measured: Agree = field(default=lambda _, own: own)

    def choose(self, logits: Array, asked: Sequence[Asked], positions: Array) -> Array:
        """Return the target's token after each node, int64 [request, node]; logits are [request*node, vocab]."""
        logits = self.measured("logits", logits)
        chosen = self.operations.call("argmax_target_predict", logits=logits).reshape(positions.shape).astype(np.int64)
        sampling = [one.sampling or SamplingParameters() for one in asked]
        seeds = np.array([one.seed for one in sampling], dtype=np.int64)
        given = {**filters_of(sampling), "seeds": seeds, "positions": positions}
        drawn: Array = self.operations.call("sample_target_predict", logits=logits, **given)
        is_greedy = np.array([one.sampling is None for one in asked])
        own: Array = np.where(is_greedy[:, None], chosen, drawn)
        return own

    def prefill(self, logits: Array, asked: Sequence[Asked], ends: Sequence[int]) -> list[int]:
        """Return the first token after each prompt, whose last positions are ``ends``."""
        chosen = self.choose(logits, asked, np.array(ends)[:, None])
        first: list[int] = self.agree("first tokens", chosen[:, 0]).tolist()
        return first

    def verify(
        self, tokens: Array, trees: Sequence[Topology], logits: Array, asked: Sequence[Asked], starts: Sequence[int]
    ) -> list[Verified]:
        """Return what is accepted of drafts, int64 [request, node], of which a root stands at each of ``starts``."""
        depths = np.array([tree.depths for tree in trees])
        target = self.choose(logits, asked, np.array(starts)[:, None] + depths)
        retrieve_index = np.arange(tokens.size).reshape(tokens.shape)
        _, accept_index, num_accepted_drafts = self.operations.call(
            "verify_tree_greedy",
            candidates=np.maximum(tokens, 0),
            retrieve_index=retrieve_index,
            retrieve_next_token=np.stack([tree.next_token for tree in trees]),
            retrieve_next_sibling=np.stack([tree.next_sibling for tree in trees]),
            target_predict=target,
            num_steps=max(int(depths.max()), 1),
        )
        nodes = accept_index - retrieve_index[:, :1]
        last = np.take_along_axis(nodes, num_accepted_drafts[:, None].astype(np.int64), 1)
        bonus = np.take_along_axis(target, last, 1)[:, 0]
        if self.run.budget is not None and tokens.shape[1] > 1:
            num_accepted_drafts, bonus = self._cut(tokens, num_accepted_drafts, bonus)
        nodes = self.agree("accepted nodes", nodes)
        num_accepted_drafts = self.agree("accepted drafts", num_accepted_drafts)
        bonus = self.agree("bonus tokens", bonus)
        verified = []
        for drafted, row, count, token in zip(tokens, nodes, num_accepted_drafts, bonus, strict=True):
            path = tuple(row[: int(count) + 1].tolist())
            verified.append(Verified(path, (*drafted[[*path[1:]]].tolist(), int(token))))
        return verified

    def draft(self, texts: Sequence[Text], number: int) -> Array:
        """Return the tokens of the next draft after texts that end with a bonus token, int64 [request, node].

        The roots are those bonus tokens; after a long round there are no others.
        """
        time = self.measured("seconds of a round", np.array([self.run.times_s[number % len(self.run.times_s)]], "f4"))
        has_steps = self.agree("number of steps", (time <= FULL_STEPS_S).astype(np.int64))
        tree = Topology.from_parents(self.run.parents if has_steps[0] else (-1,))
        tokens = np.full((len(texts), len(tree)), NO_DRAFT, dtype=np.int64)
        tokens[:, 0] = [text[-1] for text in texts]
        for node, below in enumerate(tree.children):
            if below:
                paths = [
                    (*text[:-1], *row[[*tree.paths[node]]].tolist()) for text, row in zip(texts, tokens, strict=True)
                ]
                rows = self.measured("draft logits", self.run.draft_rows_after(paths))
                chosen = self.operations.call("fast_topk", values=rows, k=len(below))[1]
                tokens[:, below] = self.agree("draft tokens", chosen.astype(np.int64))
        return tokens

    def _cut(self, tokens: Array, num_accepted_drafts: Array, bonus: Array) -> tuple[Array, Array]:
        num_drafts = np.sum(tokens[:, 1:] != NO_DRAFT, axis=1).astype(np.int32)
        places = np.add.outer(np.arange(len(tokens)), np.arange(tokens.shape[1] - 1))
        levels = CONFIDENCES[:1] if self.run.has_ties else CONFIDENCES
        confidence = np.array(levels, dtype=np.float32)[places % len(levels)]
        verify_lens = self.operations.call(
            "schedule_verify_lens",
            confidence=self.measured("confidence", confidence),
            num_drafts=num_drafts,
            survival_eps=None,
            verify_token_budget=self.run.budget,
            max_verify_len=tokens.shape[1],
        )
        kept, cut_tokens, trim = self.operations.call(
            "cap_accepted_drafts",
            candidates=np.maximum(tokens, 0),
            num_accepted_drafts=num_accepted_drafts,
            bonus_tokens=bonus,
            verify_lens=self.agree("verify lengths", verify_lens),
        )
        self.agree("trimmed drafts", trim)
        return kept, cut_tokens


def alone(operations: CallsByName, run: RoundsRun, request: Asked) -> Text:
    """Return what a request outputs token by token, without a draft."""
    decisions, text = Decisions(operations, run), request.prompt
    for _ in range(request.max_new_tokens):
        rows = run.rows_after([text])
        text += (int(decisions.choose(rows, [request], np.array([[len(text) - 1]]))[0, 0]),)
    return text[len(request.prompt) :]


def play_rounds(decisions: Decisions) -> list[Text]:
    """Return what the requests of a run output, all in one batch, on one stage."""
    run = decisions.run
    texts: list[Text] = [one.prompt for one in run.asked]
    first = decisions.prefill(run.rows_after(texts), run.asked, [len(text) - 1 for text in texts])
    texts = [(*text, token) for text, token in zip(texts, first, strict=True)]
    number = 0
    while left := [place for place, one in enumerate(run.asked) if _is_left(one, texts[place])]:
        tokens = decisions.draft([texts[place] for place in left], number)
        tree = Topology.from_parents(run.parents if tokens.shape[1] > 1 else (-1,))
        paths = [
            (*texts[place][:-1], *row[[*path]].tolist())
            for place, row in zip(left, tokens, strict=True)
            for path in tree.paths
        ]
        asked, starts = [run.asked[place] for place in left], [len(texts[place]) - 1 for place in left]
        verified = decisions.verify(tokens, [tree] * len(left), run.rows_after(paths), asked, starts)
        for place, one in zip(left, verified, strict=True):
            texts[place] += one.tokens
        number += 1
    return [text[len(one.prompt) :][: one.max_new_tokens] for text, one in zip(texts, run.asked, strict=True)]


def _is_left(asked: Asked, text: Text) -> bool:
    return len(text) < len(asked.prompt) + asked.max_new_tokens
