"""The draft side of NGRAM: drafts come from a store on the host, so that there is no draft model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.conformance.calls import CallsByName
from specsim.host.ngram import NgramDraft, NgramStore
from specsim.operations.protocol import Operations
from specsim.phases import EagleDraftExtendInput, VerifyInput, VerifyOutput
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.prefill import TargetPrefill
from specsim.simulation.ngram import StoringSide, masks_of, output_tokens
from specsim.simulation.sides import Followed, Setting, Waiting


@dataclass(frozen=True)
class TextsInput:
    """Rows and committed lengths, int64 [request], and the text of each request, its last token included."""

    req_pool_indices: Array
    seq_lens: Array
    texts: tuple[list[int], ...]

    @classmethod
    def of(cls, rows: Sequence[int], texts: Sequence[list[int]]) -> "TextsInput":
        """Return texts in rows: all tokens of a text but the last are committed."""
        lengths = np.array([len(text) - 1 for text in texts], dtype=np.int64)
        return cls(np.array(rows, dtype=np.int64), lengths, tuple(texts))


class WaitingTexts:
    """The texts of requests by row."""

    def __init__(self) -> None:
        self.texts: dict[int, list[int]] = {}

    def take(self, rows: Sequence[int]) -> TextsInput:
        """Return the texts of these rows."""
        return TextsInput.of(rows, [self.texts[row] for row in rows])

    def keep(self, start: TextsInput, joins: bool = False) -> None:
        """Keep texts; a prompt takes the place of its row's last owner."""
        self.texts.update(zip(start.req_pool_indices.tolist(), start.texts, strict=True))

    def state(self) -> dict[str, Any]:
        """Return nothing: texts are the requests' own."""
        return {}


class NgramSide(StoringSide):
    """Continue each text as the store knows that others went on, and insert the ends of texts after a verify.

    V1 inserts what the verify output. V2 has it on the host a verify later only, and inserts what was there before.

    Notes
    -----
    Source: semantics A.13, A.13b, C.4.
    """

    def __init__(self, setting: Setting, store: NgramStore | None = None) -> None:
        self._operations: CallsByName = setting.operations
        host, draft = self._operations.host, self._operations.draft_with_corpora
        super().__init__(setting, "numpy", host("NgramStore"), host("NgramCorpus"), draft, store)

    def waiting(self, is_v1: bool) -> Waiting:
        """Return texts by row."""
        return WaitingTexts()

    def prefill(self, after: TargetPrefill, pools: Pools) -> TextsInput:
        """Return the texts up to the ends of chunks, and the token after each."""
        pairs = zip(after.chunks, after.following.tolist(), strict=True)
        return TextsInput.of(after.row.tolist(), [[*chunk.prompt[: chunk.end], token] for chunk, token in pairs])

    def draft(
        self, start: TextsInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Array]
    ) -> VerifyInput:
        """Return a tree after each text."""
        drafts = self._continue([self._end(text) for text in start.texts])
        return verify_input_of(drafts, config.num_draft_tokens, start.seq_lens, verify_slots(), self._operations)

    def follow(
        self,
        start: TextsInput,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Array]:
        """Insert the texts as they were drafted for, and let them go on."""
        self._insert(start.texts)
        tokens = output_tokens(verify_output.predict, verify_output.accept_index)
        counts = verify_output.num_accepted_tokens.tolist()
        said = [own[:count] for own, count in zip(tokens.tolist(), counts, strict=True)]
        return Followed(_going_on(start, said), tokens=tokens)

    def follow_ragged(
        self,
        start: TextsInput,
        everyone: EagleDraftExtendInput,
        going_on: EagleDraftExtendInput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Array]:
        """Let the texts go on, and insert them, also those that end."""
        ends = np.cumsum(everyone.num_accepted_tokens)[:-1]
        said = [own.tolist() for own in np.split(everyone.input_ids, ends)[: len(start.texts)]]
        after = _going_on(start, said)
        self._insert(after.texts)
        return Followed(after)


def verify_input_of(
    drafts: Sequence[NgramDraft], num_nodes: int, seq_lens: Array, out_cache_loc: Array, operations: Operations[Array]
) -> VerifyInput:
    """Return the trees of a batch, whose links are read from their masks.

    Parameters
    ----------
    drafts : sequence of NgramDraft
        One a request, if there is any.
    num_nodes : int
        Nodes of each.
    seq_lens : int64 [request]
        Positions that are committed.
    out_cache_loc : int64 [request*node]
        Slots that the target writes.

    Notes
    -----
    Source: semantics A.13.
    """
    tree_mask = masks_of(drafts, num_nodes)
    links = operations.reconstruct_indices_from_tree_mask(tree_mask, seq_lens)
    return VerifyInput(
        draft_token=np.array([draft.tokens for draft in drafts], dtype=np.int64).reshape(-1),
        retrieve_index=links.retrieve_index,
        retrieve_next_token=links.retrieve_next_token,
        retrieve_next_sibling=links.retrieve_next_sibling,
        positions=links.positions,
        tree_mask=tree_mask.reshape(-1),
        out_cache_loc=out_cache_loc,
        seq_lens=seq_lens,
        num_draft_tokens=num_nodes,
    )


def _going_on(start: TextsInput, said: Sequence[Sequence[int]]) -> TextsInput:
    """Return texts with the tokens that a verify output."""
    texts = [[*text, *own] for text, own in zip(start.texts, said, strict=True)]
    return TextsInput.of(start.req_pool_indices.tolist(), texts)
