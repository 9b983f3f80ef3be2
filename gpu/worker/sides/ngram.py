"""The draft side of NGRAM on the device: drafts come from a store on the host, so that there is no draft model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specsim import gpu
from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.carried import DeviceWaiting
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.prefill import TargetPrefill
from specsim.gpu.worker.transfer import pinned
from specsim.host.ngram import NgramStore
from specsim.phases import EagleDraftExtendInput, VerifyInput, VerifyOutput
from specsim.simulation.ngram import StoringSide, masks_of
from specsim.simulation.sides import Followed, Setting
from specsim.simulation.worker import Iteration

Texts = Sequence[list[int]]
"""The tokens of requests, the last one of each included."""


@dataclass(frozen=True)
class GrownTrees:
    """Trees of a batch that the host has grown, and the texts that they continue.

    ``req_pool_indices`` and ``seq_lens`` int64 [request], ``draft_token`` int64 and ``tree_mask`` bool
    [request, node, ...].
    """

    req_pool_indices: Tensor
    seq_lens: Tensor
    draft_token: Tensor
    tree_mask: Tensor
    texts: Texts


class WaitingTexts(DeviceWaiting):
    """The texts of requests by row; trees grow when a batch is taken."""

    def __init__(self, grow: Callable[[Sequence[int], Texts], GrownTrees]) -> None:
        self.texts: dict[int, list[int]] = {}
        self._grow = grow

    def take(self, rows: Sequence[int]) -> GrownTrees:
        """Grow trees after the texts of these rows."""
        return self._grow(rows, [self.texts[row] for row in rows])

    def keep(self, start: Any, joins: bool = False, rows: Sequence[int] = ()) -> None:
        """Keep prompts, in the places of the last owners of their rows; other texts go on where they are."""
        if joins:
            self.texts.update(zip(rows, start, strict=True))

    def hear(self, rows: Sequence[int], iteration: Iteration) -> None:
        """Let the texts go on, in place."""
        for row, tokens, count in zip(
            rows, iteration.tokens.tolist(), iteration.num_accepted_tokens.tolist(), strict=True
        ):
            self.texts[row].extend(tokens[:count])

    def state(self) -> dict[str, Any]:
        """Return nothing: texts are the requests' own."""
        return {}


class NgramSide(StoringSide):
    """Continue each text as the store knows that others went on, and insert the ends of texts after a verify.

    V1 inserts what the verify output. V2 inserts what was there before it, while the device is busy with it. Source:
    semantics A.13, A.13b, C.4.
    """

    def __init__(self, setting: Setting, store: NgramStore | None = None) -> None:
        super().__init__(setting, "torch", store=store)
        self._fan = torch.eye(self.parameters.num_draft_tokens, dtype=torch.bool, device=DEVICE)
        self._fan[:, :1] = True

    def waiting(self, is_v1: bool) -> DeviceWaiting:
        """Return texts by row."""
        return WaitingTexts(self._grow)

    def prefill(self, after: TargetPrefill, pools: Pools) -> Texts:
        """Return the texts up to the ends of chunks, and the token after each."""
        pairs = zip(after.chunks, after.tokens, strict=True)
        return [[*chunk.prompt[: chunk.end], token] for chunk, token in pairs]

    def draft(
        self, start: GrownTrees, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Tensor]
    ) -> VerifyInput:
        """Read the links of the trees from their masks; padding becomes trees whose nodes are all below the root."""
        tree_mask = start.tree_mask | self._fan
        links = gpu.reconstruct_indices_from_tree_mask(tree_mask, start.seq_lens)
        return VerifyInput(
            draft_token=start.draft_token.view(-1),
            retrieve_index=links.retrieve_index,
            retrieve_next_token=links.retrieve_next_token,
            retrieve_next_sibling=links.retrieve_next_sibling,
            positions=links.positions,
            tree_mask=tree_mask.view(-1),
            out_cache_loc=verify_slots(),
            seq_lens=start.seq_lens,
            num_draft_tokens=config.num_draft_tokens,
        )

    def follow(
        self,
        start: GrownTrees,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Tensor]:
        """Insert the texts as they were drafted for."""
        self._insert(start.texts)
        return Followed(start, tokens=gpu.gather_accept_tokens(verify_output.predict, verify_output.accept_index))

    def follow_ragged(
        self,
        start: GrownTrees,
        everyone: EagleDraftExtendInput,
        going_on: EagleDraftExtendInput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Tensor]:
        """Insert the texts, which have gone on, also those that end."""
        self._insert(start.texts)
        return Followed(start)

    def _grow(self, rows: Sequence[int], texts: Texts) -> GrownTrees:
        """Return a tree after each text, on the host: the stages of the batch bring it to the device."""
        drafts, num_nodes = self._continue([self._end(text) for text in texts]), self.parameters.num_draft_tokens
        tokens = np.array([draft.tokens for draft in drafts], dtype=np.int64).reshape(len(rows), num_nodes)
        return GrownTrees(
            pinned(np.array(rows, dtype=np.int64)),
            pinned(np.array([len(text) - 1 for text in texts], dtype=np.int64)),
            pinned(tokens),
            pinned(masks_of(drafts, num_nodes)),
            texts,
        )
