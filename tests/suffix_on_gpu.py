"""The drafter of ``suffix_drafter`` for the loops of the GPU layer."""

import numpy as np
import torch

from specsim import gpu
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.sides.ngram import GrownTrees, WaitingTexts
from specsim.gpu.worker.transfer import pinned
from specsim.phases import VerifyInput
from specsim.simulation.ngram import masks_of
from specsim.simulation.sides import Followed
from tests.suffix_drafter import DRAFTERS, facts_of, suffix_draft

ARRAYS = "torch"
__all__ = ["ARRAYS", "DRAFTERS"]


class SuffixSide:
    """Trees grow on the host when a batch is taken; the stages of the batch bring them to the device."""

    def __init__(self, setting):
        self.facts = facts_of(setting.model, "torch")
        self._config = setting.drafting
        self._fan = torch.eye(self._config.num_draft_tokens, dtype=torch.bool, device=DEVICE)
        self._fan[:, :1] = True

    def waiting(self, is_v1):
        return WaitingTexts(self.grow)

    def join(self, rows):
        """Keep nothing of a request but its text."""

    def prefill(self, after, pools):
        return [[*chunk.prompt[: chunk.end], token] for chunk, token in zip(after.chunks, after.tokens, strict=True)]

    def grow(self, rows, texts):
        drafts, num_nodes = [suffix_draft(text, self._config) for text in texts], self._config.num_draft_tokens
        tokens = np.array([draft.tokens for draft in drafts], dtype=np.int64).reshape(len(rows), num_nodes)
        lengths = np.array([len(text) - 1 for text in texts], dtype=np.int64)
        arrays = np.array(rows, dtype=np.int64), lengths, tokens, masks_of(drafts, num_nodes)
        return GrownTrees(*map(pinned, arrays), texts)

    def draft(self, start, config, pools, verify_slots):
        tree_mask = start.tree_mask | self._fan
        links = gpu.reconstruct_indices_from_tree_mask(tree_mask, start.seq_lens)
        return VerifyInput(
            draft_token=start.draft_token.view(-1),
            **links._asdict(),
            tree_mask=tree_mask.view(-1),
            out_cache_loc=verify_slots(),
            seq_lens=start.seq_lens,
            num_draft_tokens=config.num_draft_tokens,
        )

    def follow(self, start, verify_input, verify_output, config, pools):
        return Followed(start, tokens=gpu.gather_accept_tokens(verify_output.predict, verify_output.accept_index))

    def follow_ragged(self, start, everyone, going_on, config, pools):
        return Followed(start)

    def resized(self, setting):
        return type(self)(setting)

    def state(self):
        return {}
