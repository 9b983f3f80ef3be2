"""A draft side of one's own, for the loops of either layer."""

import numpy as np

from specsim.host.ngram import NgramDraft


def suffix_side(ngram_side):
    """Return a side over that of NGRAM which proposes a chain: how each text went on where its last token stood."""

    class SuffixSide(ngram_side):
        def _continue(self, texts):
            return [self._chain(text) for text in texts]

        def _chain(self, text):
            count = self.parameters.num_draft_tokens
            before = next((place for place in range(len(text) - 2, -1, -1) if text[place] == text[-1]), len(text) - 1)
            tokens = [text[-1], *text[before + 1 :], *[0] * count][:count]
            return NgramDraft(np.array(tokens), np.tril(np.ones((count, count), dtype=np.bool_)), 0)

    return SuffixSide
