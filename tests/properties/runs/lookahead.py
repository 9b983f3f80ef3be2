"""A worker with a drafting policy of its own: it continues a text as an earlier place of the same text went on."""

import numpy as np

from specsim.host.ngram.draft import NgramDraft
from specsim.reference.worker.sides.ngram import verify_input_of
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.draft_sides.stepwise import StepwiseSide


class Lookahead(StepwiseSide):
    """Drafts from the n-gram pool of each request: what followed its last token before."""

    def __init__(self, setting):
        super().__init__(setting)
        self.texts = {}

    def join(self, rows):
        self.texts |= {int(row): [] for row in rows}

    def prefill(self, after, pools):
        ends = np.cumsum(after.lengths)
        for row, start, end, length in zip(after.row, after.starts, ends, after.lengths, strict=True):
            self.hear(row, int(start), after.input_ids[end - length : end].tolist())
        phase = super().prefill(after, pools)
        for row, length, bonus in zip(phase.req_pool_indices, phase.seq_lens, phase.bonus_tokens, strict=True):
            self.hear(row, int(length), [int(bonus)])
        return phase

    def hear(self, row, start, tokens):
        """Keep tokens from a position on; what came before may lie in a prefix cache, and was not read."""
        text = self.texts.setdefault(int(row), [])
        text[:] = [*text[:start], *[None] * (start - len(text)), *tokens]

    def draft(self, start, config, pools, verify_slots):
        texts, width = self.texts, config.num_draft_tokens
        pairs = zip(start.req_pool_indices, start.bonus_tokens, strict=True)
        drafts = [grown(texts.get(int(row), []), int(bonus), config) for row, bonus in pairs]
        return verify_input_of(drafts, width, start.seq_lens, verify_slots(), self._operations)

    def extend(self, row, verify_input, verify_output, phase, seq_lens, pools):
        tokens = phase.input_ids.reshape(len(row), verify_input.num_draft_tokens).tolist()
        counts = zip(row, verify_input.seq_lens, phase.num_accepted_tokens, tokens, strict=True)
        for one, length, count, own in counts:
            self.hear(one, int(length) + 1, own[: int(count)])
        return super().extend(row, verify_input, verify_output, phase, seq_lens, pools)


def grown(text, last, config):
    """Return a chain of what followed the last token before, after other children of the root."""
    width = config.num_draft_tokens
    found = next((place for place in range(len(text) - 2, -1, -1) if text[place] == last), None)
    follow = [] if found is None else [token for token in text[found + 1 :] if token is not None]
    chain = (follow + [last] * config.num_steps)[: config.num_steps]
    num_others = width - 1 - len(chain)
    parents = [-1, *[0] * num_others, 0, *range(num_others + 1, width - 1)]
    tokens = [last, *[(last + place) % 2 for place in range(num_others)], *chain]
    mask = np.eye(width, dtype=bool)
    for node in range(1, width):
        mask[node] |= mask[parents[node]]
    return NgramDraft(np.array(tokens), mask, 0)


class LookaheadWorker(ReferenceWorker):
    """The V2 loop with it."""

    def __init__(self, config, model, sizes, operations=None):
        super().__init__(config, model, sizes, operations, make_side=Lookahead, name="lookahead")
