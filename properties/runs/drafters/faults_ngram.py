"""Faults in the drafts of a store: in what is said to the store, and in what is taken from it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.host.ngram import NgramDraft, NgramStore, draft_with_corpora, merge_drafts
from specsim.phases import EagleDraftExtendInput, VerifyInput, VerifyOutput
from specsim.properties.mutants.record import mutants_of_sides
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.prefill import TargetPrefill
from specsim.reference.worker.sides.ngram import NgramSide, TextsInput
from specsim.simulation.sides import Followed, Setting

Texts = Sequence[list[int]]


class OneStepLate(NgramSide):
    """Inserts every text as it was after the verify before."""

    _before: tuple[list[int], ...] = ()

    def _insert(self, texts: Texts) -> None:
        super()._insert(self._before)
        self._before = tuple(texts)


class OneTokenShort(NgramSide):
    """Begins a token late."""

    def _insert(self, texts: Texts) -> None:
        super()._insert([self._end(text)[1:] for text in texts])


class WithoutTheBonus(NgramSide):
    """Ends a token early."""

    def _insert(self, texts: Texts) -> None:
        for text in texts:
            self.store.insert(self._end(text)[:-1])


class EndedOnesAreLost(NgramSide):
    """Does not insert the last words of a request."""

    def follow_ragged(
        self,
        start: TextsInput,
        everyone: EagleDraftExtendInput,
        going_on: EagleDraftExtendInput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Array]:
        """Note who goes on."""
        is_kept = np.isin(everyone.req_pool_indices, going_on.req_pool_indices)
        self._is_kept: list[bool] = is_kept.tolist()
        return super().follow_ragged(start, everyone, going_on, config, pools)

    def _insert(self, texts: Texts) -> None:
        super()._insert([text for text, is_kept in zip(texts, self._is_kept, strict=True) if is_kept])


class RejectedDraftsAreSaid(NgramSide):
    """Inserts what is drafted, before the target says whether it follows."""

    def _continue(self, texts: Texts) -> list[NgramDraft]:
        drafts = super()._continue(texts)
        for draft in drafts:
            self.store.insert(draft.tokens[:2].tolist())
        return drafts


class FirstOfABatchAlone(NgramSide):
    """Continues and inserts the text of the first request for each of a batch."""

    def _continue(self, texts: Texts) -> list[NgramDraft]:
        return super()._continue([texts[0]] * len(texts))

    def _insert(self, texts: Texts) -> None:
        super()._insert([texts[0]] * len(texts))


class TreesOfTheNeighbour(NgramSide):
    """Gives each request what the next one of its batch may see."""

    def draft(
        self, start: TextsInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Array]
    ) -> VerifyInput:
        """Turn the masks of the batch."""
        drafted = super().draft(start, config, pools, verify_slots)
        masks = drafted.tree_mask.reshape(len(start.texts), -1)
        return replace(drafted, tree_mask=np.roll(masks, -1, axis=0).reshape(-1))


class OutputAlone(NgramSide):
    """Loses the prompt where it reaches into the last words."""

    def __init__(self, setting: Setting, store: NgramStore | None = None) -> None:
        super().__init__(setting, store)
        self._prompts: dict[int, int] = {}

    def prefill(self, after: TargetPrefill, pools: Pools) -> TextsInput:
        """Note where prompts end."""
        start = super().prefill(after, pools)
        self._prompts.update(zip(start.req_pool_indices.tolist(), start.seq_lens.tolist(), strict=True))
        return start

    def draft(
        self, start: TextsInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Array]
    ) -> VerifyInput:
        """Draft after outputs."""
        return super().draft(self._without_prompts(start), config, pools, verify_slots)

    def follow_ragged(
        self,
        start: TextsInput,
        everyone: EagleDraftExtendInput,
        going_on: EagleDraftExtendInput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Array]:
        """Insert outputs."""
        followed = super().follow_ragged(self._without_prompts(start), everyone, going_on, config, pools)
        texts = [
            [*before, *text[-count:]]
            for before, text, count in zip(
                start.texts, followed.start.texts, everyone.num_accepted_tokens.tolist(), strict=True
            )
        ]
        return replace(followed, start=TextsInput.of(start.req_pool_indices.tolist(), texts))

    def _without_prompts(self, start: TextsInput) -> TextsInput:
        ends = [self._prompts[row] for row in start.req_pool_indices.tolist()]
        return replace(start, texts=tuple(text[end:] for text, end in zip(start.texts, ends, strict=True)))


class OneTokenMore(NgramSide):
    """Takes a word more than a path has room for."""

    def _end(self, text: list[int]) -> list[int]:
        return text[-self.parameters.max_depth - 1 :]


class OneNodeLess(NgramSide):
    """Fills the last node of every draft up, also where something is known."""

    def _continue(self, texts: Texts) -> list[NgramDraft]:
        num_nodes = self.parameters.num_draft_tokens
        drafts = [self.store.draft(text, max(num_nodes - 1, 1)) for text in texts]
        return [merge_drafts([draft], num_nodes) for draft in drafts]


class CorporaAreLost(NgramSide):
    """Drafts from what was said alone."""

    def _continue(self, texts: Texts) -> list[NgramDraft]:
        return [self.store.draft(text) for text in texts]


class BudgetOfEach(NgramSide):
    """Lets the last corpus alone draft the budget of all."""

    def _continue(self, texts: Texts) -> list[NgramDraft]:
        num_nodes, budget = self.parameters.num_draft_tokens, self.parameters.corpus_budget
        return [draft_with_corpora(self.store, self._corpora[-1:], text, num_nodes, budget) for text in texts]


class CountsWhatWasOutput(NgramSide):
    """Counts as DFLASH does."""

    def __init__(self, setting: Setting, store: NgramStore | None = None) -> None:
        super().__init__(setting, store)
        self.facts = replace(self.facts, counts_only_output=True)


class SaidAtOnce(NgramSide):
    """Inserts what the verify has just output."""

    def follow(
        self,
        start: TextsInput,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        config: SpecConfig,
        pools: Pools,
    ) -> Followed[Array]:
        """Insert afterwards."""
        self._is_late = True
        followed = super().follow(start, verify_input, verify_output, config, pools)
        self._is_late = False
        self._insert(followed.start.texts)
        return followed

    _is_late = False

    def _insert(self, texts: Texts) -> None:
        if not self._is_late:
            super()._insert(texts)


class SaidTwoLate(NgramSide):
    """Inserts texts as they were in front of the verify before."""

    _before: Texts = ()

    def _insert(self, texts: Texts) -> None:
        super()._insert(self._before)
        self._before = texts


class FirstOfABatchSaid(NgramSide):
    """Inserts the text of the first request for each of a batch."""

    def _insert(self, texts: Texts) -> None:
        super()._insert([texts[0]] * len(texts))


class DraftOfTheNeighbour(NgramSide):
    """Draws what follows the root from the text of the next request of the batch."""

    def _continue(self, texts: Texts) -> list[NgramDraft]:
        own = super()._continue(texts)
        others = [*own[1:], *own[:1]]
        return [
            replace(other, tokens=np.concatenate([draft.tokens[:1], other.tokens[1:]]))
            for draft, other in zip(own, others, strict=True)
        ]


_FAULTS: tuple[tuple[str, str, type[NgramSide]], ...] = (
    ("OWN-2100", "A text is inserted as it was after the verify before.", OneStepLate),
    ("OWN-2101", "A text is inserted from its second token on.", OneTokenShort),
    ("OWN-2102", "A text is inserted without its bonus token.", WithoutTheBonus),
    ("OWN-2103", "The last words of a request that ends are not inserted.", EndedOnesAreLost),
    ("OWN-2104", "Drafts are inserted that the target has not seen.", RejectedDraftsAreSaid),
    ("OWN-2105", "Every request of a batch is drafted for by the text of the first.", FirstOfABatchAlone),
    ("OWN-2106", "The nodes of a request see what those of its neighbour may.", TreesOfTheNeighbour),
    ("OWN-2107", "A text that is shorter than a path is inserted without its prompt.", OutputAlone),
    ("OWN-2108", "A text is inserted that is longer than a path.", OneTokenMore),
    ("OWN-2109", "The last node of a draft is padding, whatever is known.", OneNodeLess),
    ("OWN-2114", "Texts from outside are not asked.", CorporaAreLost),
    ("OWN-2116", "The counter of a request loses the drafts that were accepted after its end.", CountsWhatWasOutput),
    ("OWN-2115", "Of several texts from outside the last one alone is asked.", BudgetOfEach),
)

_FAULTS_OF_V2: tuple[tuple[str, str, type[NgramSide]], ...] = (
    ("OWN-2110", "V2 inserts what the host has not seen yet.", SaidAtOnce),
    ("OWN-2111", "V2 inserts a text two verifies late.", SaidTwoLate),
    ("OWN-2112", "V2 inserts the text of the first request of a batch for each.", FirstOfABatchSaid),
    ("OWN-2113", "V2 drafts for each request what follows the text of its neighbour.", DraftOfTheNeighbour),
)

MUTANTS = (
    *mutants_of_sides("NgramStore", ["ngram"], _FAULTS),
    *mutants_of_sides("NgramStore", ["ngram_v2"], _FAULTS_OF_V2),
)
