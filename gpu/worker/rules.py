"""What the rules of requests do to logits on the device, and what rows know of the outputs that these follow."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from specsim import gpu
from specsim.gpu.worker.constraints import allowed_tokens
from specsim.gpu.worker.transfer import send
from specsim.host.choice import TokenChoice, any_rules
from specsim.host.grammar import BITS_PER_WORD
from specsim.host.logit_rules import LONGEST_BAD_WORD, MOST_BAD_WORDS, NO_RULES, NO_TOKEN, NUM_RECENT
from specsim.simulation.models.batches import TargetOutput

OF_OUTPUT = ("token_counts", "num_output_tokens", "recent_tokens")
"""What a row knows of its request's output; ``commit_output_tokens`` advances it."""


class RuleRows:
    """Rules and what they follow, by request row on the device; nothing is allocated before a request has rules.

    Rows without rules, and the padding row, have such as change nothing. Allocated once, the arrays stay where they
    are, so that captured graphs read them.
    """

    def __init__(self, num_rows: int, device: torch.device) -> None:
        self._num_rows = num_rows
        self._device = device
        self._by_name: dict[str, Tensor] = {}
        self._ruled: set[int] = set()

    @property
    def is_allocated(self) -> bool:
        """Whether a request has come with rules."""
        return bool(self._by_name)

    def start(self, rows: Sequence[int], choices: Sequence[TokenChoice], vocab_size: int) -> None:
        """Write the rules of requests whose prompts run, and what they have output by now, without waiting."""
        if not self._by_name:
            if not any_rules(choices):
                return
            everyone = [TokenChoice()] * self._num_rows
            arrays = _arrays(everyone, vocab_size)
            self._by_name = {name: torch.from_numpy(values).to(self._device) for name, values in arrays.items()}
        ruled = {row for row, choice in zip(rows, choices, strict=True) if choice.rules is not None}
        if not ruled and self._ruled.isdisjoint(rows):
            return
        self._ruled = self._ruled.difference(rows) | ruled
        where = send(np.array(rows, dtype=np.int64), self._device)
        for name, values in _arrays(choices, vocab_size).items():
            self._by_name[name].index_copy_(0, where, send(values, self._device))

    def apply(self, rows: Tensor, draft_token: Tensor, tree_mask: Tensor, output: TargetOutput[Tensor]) -> None:
        """Change the logits of a batch of trees, in place, as the rules of its rows want them (semantics B.4, B.4b).

        ``output`` is what ``writable`` returns. Without greedy logits that are numbers of their own, and without
        sampling logits, whole numbers are masked and nothing else: no rule makes them larger or smaller.
        """
        own = {name: values.index_select(0, rows) for name, values in self._by_name.items()}
        num_nodes, vocab_size = len(draft_token) // len(rows), output.logits.shape[1]
        vocab_mask = gpu.forbid_tokens(
            draft_token,
            tree_mask,
            own["num_output_tokens"],
            own["min_tokens"],
            own["stop_mask"],
            own["recent_tokens"],
            own["bad_words"],
            num_nodes,
            vocab_size,
        )
        logits, sampled = output.logits, output.sampling_logits
        lowest = -torch.inf if logits.is_floating_point() else torch.iinfo(logits.dtype).min
        logits.masked_fill_(~allowed_tokens(vocab_mask, vocab_size), lowest)
        if sampled is None and not logits.is_floating_point():
            return
        penalised = gpu.apply_penalties(
            logits if sampled is None else sampled,
            own["token_counts"],
            draft_token,
            (tree_mask.view(len(rows), -1) & own["is_exact"][:, None]).view(-1),
            own["frequency_penalty"],
            own["presence_penalty"],
            own["repetition_penalty"],
            num_nodes,
        )
        ruled = gpu.prepare_logits(penalised, None, None, own["logit_bias"], vocab_mask, num_nodes)
        is_ruled = own["has_strengths"].repeat_interleave(num_nodes, output_size=len(logits))[:, None]
        chosen_from = ruled if logits.is_floating_point() else in_order(ruled)
        logits.copy_(torch.where(is_ruled, chosen_from, logits))
        if sampled is not None:
            sampled.copy_(ruled)

    def commit(self, rows: Tensor, accept_index: Tensor, predict: Tensor) -> None:
        """Advance what rows know of their outputs by what was accepted."""
        counts_all = self._by_name["is_exact"].index_select(0, rows)
        counts, lengths, recent = (self._by_name[name] for name in OF_OUTPUT)
        gpu.commit_output_tokens(rows, counts, lengths, recent, accept_index, predict, counts_all)


def writable(output: TargetOutput[Tensor]) -> TargetOutput[Tensor]:
    """Return logits that rules can be written into without rounding: whole numbers, or float32."""
    logits, sampled = output.logits, output.sampling_logits
    return replace(
        output,
        logits=logits.float() if logits.is_floating_point() else logits,
        sampling_logits=None if sampled is None else sampled.float(),
    )


def in_order(values: Tensor) -> Tensor:
    """Return int64 numbers in the order of float32 values, equal where these are."""
    bits = (values + 0.0).view(torch.int32).long()
    return torch.where(bits < 0, -(2**31) - bits, bits)


def _arrays(choices: Sequence[TokenChoice], vocab_size: int) -> dict[str, np.ndarray]:
    """Return rules and outputs of requests as arrays [request, ...]."""
    rules, count = [choice.rules or NO_RULES for choice in choices], len(choices)
    bias = np.zeros((count, vocab_size), dtype=np.float32)
    bits = np.zeros((count, -(-vocab_size // BITS_PER_WORD) * BITS_PER_WORD), dtype=np.uint8)
    words = np.full((count, MOST_BAD_WORDS, LONGEST_BAD_WORD), NO_TOKEN, dtype=np.int64)
    token_counts = np.zeros((count, vocab_size), dtype=np.int32)
    recent = np.full((count, NUM_RECENT), NO_TOKEN, dtype=np.int64)
    for place, (choice, one) in enumerate(zip(choices, rules, strict=True)):
        for token, value in one.logit_bias:
            bias[place, token] = value
        bits[place, [token for token in choice.stops if 0 <= token < vocab_size]] = 1
        for number, word in enumerate(one.bad_words):
            words[place, number, LONGEST_BAD_WORD - len(word) :] = word
        if choice.output:
            token_counts[place] = np.bincount(choice.output, minlength=vocab_size)
            last = choice.output[-NUM_RECENT:]
            recent[place, NUM_RECENT - len(last) :] = last
    strengths = {
        name: np.array([vars(one)[name] for one in rules], dtype=np.float32)
        for name in ("frequency_penalty", "presence_penalty", "repetition_penalty")
    }
    return {
        "token_counts": token_counts,
        "num_output_tokens": np.array([len(choice.output) for choice in choices], dtype=np.int32),
        "recent_tokens": recent,
        "min_tokens": np.array([one.min_tokens for one in rules], dtype=np.int32),
        "stop_mask": np.packbits(bits, axis=1, bitorder="little").view(np.int32),
        "bad_words": words,
        "logit_bias": bias,
        "has_strengths": np.array([one.has_strengths for one in rules], dtype=np.bool_),
        "is_exact": np.array([one.is_exact for one in rules], dtype=np.bool_),
        **strengths,
    }
