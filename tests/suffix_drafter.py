"""A drafter brought alone: it drafts what followed the longest end of a text where that stood before in the text."""

from dataclasses import replace

import numpy as np

from specsim.algorithms import Drafter
from specsim.host.ngram import NgramDraft
from specsim.reference.worker.sides.ngram import TextsInput, WaitingTexts, verify_input_of
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import require_model
from specsim.simulation.ngram import output_tokens
from specsim.simulation.sides import Followed, SideFacts


def facts_of(model, arrays):
    """Return the facts of a side whose drafts come from the host, without KV."""
    description = require_model(model, arrays)
    own = replace(description, kv_components=tuple(one for one in description.kv_components if one.side is Side.TARGET))
    return SideFacts(own, 0, borrows=False, proposes_by_tree=True, narrows=False, drafts_on_host=True)


def suffix_draft(text, config):
    """Return a chain of what followed, and below the root as many nodes more as the sizes have."""
    chain = [*_following(text), *[text[-1]] * config.num_steps][: config.num_steps]
    num_nodes = config.num_draft_tokens
    visible = np.tril(np.ones((num_nodes, num_nodes), dtype=np.bool_))
    visible[config.num_steps + 1 :, 1:] = np.eye(num_nodes, dtype=np.bool_)[config.num_steps + 1 :, 1:]
    return NgramDraft(np.array([text[-1], *chain, *[0] * num_nodes][:num_nodes]), visible, 0)


def _following(text):
    """Return what followed the longest end of a text at its last place before."""
    pairs = ((length, place) for length in range(8, 0, -1) for place in range(len(text) - length - 1, -1, -1))
    return next((text[place + length :] for length, place in pairs if text[place:][:length] == text[-length:]), [])


class SuffixSide:
    """The side for the loops of the reference."""

    def __init__(self, setting):
        self.facts = facts_of(setting.model, "numpy")
        self._operations = setting.operations

    def waiting(self, is_v1):
        return WaitingTexts()

    def join(self, rows):
        """Keep nothing of a request but its text."""

    def prefill(self, after, pools):
        pairs = zip(after.chunks, after.following.tolist(), strict=True)
        return TextsInput.of(after.row.tolist(), [[*chunk.prompt[: chunk.end], token] for chunk, token in pairs])

    def draft(self, start, config, pools, verify_slots):
        drafts, num_nodes = [suffix_draft(text, config) for text in start.texts], config.num_draft_tokens
        return verify_input_of(drafts, num_nodes, start.seq_lens, verify_slots(), self._operations)

    def follow(self, start, verify_input, verify_output, config, pools):
        tokens = output_tokens(verify_output.predict, verify_output.accept_index)
        counts = verify_output.num_accepted_tokens.tolist()
        said = [own[:count] for own, count in zip(tokens.tolist(), counts, strict=True)]
        return Followed(self.going_on(start, said), tokens=tokens)

    def follow_ragged(self, start, everyone, going_on, config, pools):
        said = np.split(everyone.input_ids, np.cumsum(everyone.num_accepted_tokens)[:-1])[: len(start.texts)]
        return Followed(self.going_on(start, [own.tolist() for own in said]))

    def going_on(self, start, said):
        """Return the texts with what a verify output."""
        texts = [[*text, *own] for text, own in zip(start.texts, said, strict=True)]
        return TextsInput.of(start.req_pool_indices.tolist(), texts)

    def resized(self, setting):
        return type(self)(setting)

    def state(self):
        return {}


DRAFTERS = {
    "suffix": Drafter(
        sides={"reference": SuffixSide, "gpu": "tests.suffix_on_gpu.SuffixSide"},
        summary="What followed the end of a text before.",
        default_sizes=(1, 5, 6),
        reads_texts=True,
    )
}
