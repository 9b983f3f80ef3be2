"""A drafter brought alone: it drafts the tokens that followed the last token of a text where that stood before."""

from dataclasses import replace

import numpy as np

from specsim.host.ngram import NgramDraft
from specsim.reference.worker.sides.ngram import TextsInput, WaitingTexts, verify_input_of
from specsim.rejection import contradiction
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import require_model
from specsim.simulation.ngram import output_tokens
from specsim.simulation.sides import Followed, SideFacts


class RepeatSide:
    """The draft side: texts wait by row, and a draft continues each of them."""

    def __init__(self, setting):
        if setting.drafting.topk != 1:
            raise contradiction("topk", setting.drafting.topk, "1", "this drafter drafts chains")
        facts = require_model(setting.model, "numpy")
        target = tuple(one for one in facts.kv_components if one.side is Side.TARGET)
        self.facts = SideFacts(
            replace(facts, kv_components=target), num_candidates=0, borrows=False, narrows=False, drafts_on_host=True
        )
        self.operations = setting.operations

    def waiting(self, is_v1):
        """Return the place where texts wait between iterations."""
        return WaitingTexts()

    def join(self, rows):
        """Keep nothing of a request but its text."""

    def prefill(self, after, pools):
        """Return the texts up to the ends of chunks, and the token after each."""
        pairs = zip(after.chunks, after.following.tolist(), strict=True)
        return TextsInput.of(after.row.tolist(), [[*chunk.prompt[: chunk.end], token] for chunk, token in pairs])

    def draft(self, start, config, pools, verify_slots):
        """Return a chain after each text, which the target verifies."""
        drafts = [chain_of(text, config.num_draft_tokens) for text in start.texts]
        return verify_input_of(drafts, config.num_draft_tokens, start.seq_lens, verify_slots(), self.operations)

    def follow(self, start, verify_input, verify_output, config, pools):
        """Let the texts go on after a verify of V2."""
        tokens = output_tokens(verify_output.predict, verify_output.accept_index)
        counts = verify_output.num_accepted_tokens.tolist()
        accepted = [own[:count] for own, count in zip(tokens.tolist(), counts, strict=True)]
        return Followed(longer(start, accepted), tokens=tokens)

    def follow_ragged(self, start, everyone, going_on, config, pools):
        """Let the texts go on after a verify of V1."""
        accepted = np.split(everyone.input_ids, np.cumsum(everyone.num_accepted_tokens)[:-1])
        return Followed(longer(start, [own.tolist() for own in accepted[: len(start.texts)]]))

    def resized(self, setting):
        """Return a side of other sizes."""
        return RepeatSide(setting)

    def state(self):
        """Return nothing: texts are the requests' own."""
        return {}


def chain_of(text, num_nodes):
    """Return the last token of a text as the root, and what followed it before as its drafts."""
    before = next((place for place in range(len(text) - 2, -1, -1) if text[place] == text[-1]), len(text))
    tokens = [text[-1], *text[before + 1 :], *[0] * num_nodes][:num_nodes]
    return NgramDraft(np.array(tokens), np.tril(np.ones((num_nodes, num_nodes), dtype=np.bool_)), 0)


def longer(start, accepted):
    """Return the texts with the tokens that a verify has accepted."""
    texts = [[*text, *own] for text, own in zip(start.texts, accepted, strict=True)]
    return TextsInput.of(start.req_pool_indices.tolist(), texts)


DRAFTERS = {"repeat": RepeatSide}
