"""Faults in the loop that drafts from a store: in what it says to the store, and in what it takes from it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specsim.conformance.arrays import Array
from specsim.host.ngram import NgramDraft, draft_with_corpora, merge_drafts
from specsim.host.truncation import Truncation
from specsim.phases import VerifyInput
from specsim.properties.mutants.record import Mutant, unchanged
from specsim.reference.worker.ngram import ReferenceNgramWorker
from specsim.reference.worker.ngram_v2 import ReferenceNgramWorkerV2
from specsim.simulation.requests import Request
from specsim.simulation.synchronous import IterationLedger, Truncate


class OneStepLate(ReferenceNgramWorker):
    """Inserts every text as it was after the verify before."""

    _before: tuple[list[int], ...] = ()

    def _insert(self, requests: Sequence[Request]) -> None:
        for text in self._before:
            self.store.insert(text)
        self._before = tuple(self._last_tokens(request) for request in requests)


class OneTokenShort(ReferenceNgramWorker):
    """Begins a token late."""

    def _insert(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self.store.insert(self._last_tokens(request)[1:])


class WithoutTheBonus(ReferenceNgramWorker):
    """Ends a token early."""

    def _insert(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self.store.insert(self._last_tokens(request)[:-1])


class EndedOnesAreLost(ReferenceNgramWorker):
    """Does not insert the last words of a request."""

    def _insert(self, requests: Sequence[Request]) -> None:
        super()._insert([request for request in requests if request.finish is None])


class RejectedDraftsAreSaid(ReferenceNgramWorker):
    """Inserts what is drafted, before the target says whether it follows."""

    def _continue(self, requests: Sequence[Request]) -> list[NgramDraft]:
        drafts = super()._continue(requests)
        for draft in drafts:
            self.store.insert(draft.tokens[:2].tolist())
        return drafts


class FirstOfABatchAlone(ReferenceNgramWorker):
    """Continues and inserts the text of the first request for each of a batch."""

    def _last_tokens(self, request: Request) -> list[int]:
        return super()._last_tokens(self._ledger.requests[0])


class TreesOfTheNeighbour(ReferenceNgramWorker):
    """Gives each request what the next one of its batch may see."""

    def _draft(self, row: Array, requests: Sequence[Request]) -> VerifyInput:
        drafted = super()._draft(row, requests)
        masks = drafted.tree_mask.reshape(len(requests), -1)
        return replace(drafted, tree_mask=np.roll(masks, -1, axis=0).reshape(-1))


class OutputAlone(ReferenceNgramWorker):
    """Loses the prompt where it reaches into the last words."""

    def _last_tokens(self, request: Request) -> list[int]:
        return list(request.output[-self.parameters.max_depth :])


class OneTokenMore(ReferenceNgramWorker):
    """Takes a word more than a path has room for."""

    def _last_tokens(self, request: Request) -> list[int]:
        return [*request.prompt, *request.output][-self.parameters.max_depth - 1 :]


class OneNodeLess(ReferenceNgramWorker):
    """Fills the last node of every draft up, also where something is known."""

    def _continue(self, requests: Sequence[Request]) -> list[NgramDraft]:
        num_nodes = self.parameters.num_draft_tokens
        drafts = [self.store.draft(self._last_tokens(request), max(num_nodes - 1, 1)) for request in requests]
        return [merge_drafts([draft], num_nodes) for draft in drafts]


class CorporaAreLost(ReferenceNgramWorker):
    """Drafts from what was said alone."""

    def _continue(self, requests: Sequence[Request]) -> list[NgramDraft]:
        return [self.store.draft(self._last_tokens(request)) for request in requests]


class BudgetOfEach(ReferenceNgramWorker):
    """Lets the last corpus alone draft the budget of all."""

    def _continue(self, requests: Sequence[Request]) -> list[NgramDraft]:
        num_nodes, budget = self.parameters.num_draft_tokens, self.parameters.corpus_budget
        texts = [self._last_tokens(request) for request in requests]
        return [draft_with_corpora(self.store, self._corpora[-1:], text, num_nodes, budget) for text in texts]


class OutputLedger(IterationLedger):
    """Counts for a request no draft behind its end."""

    def end_requests(
        self, accept_index: Array, predict: Array, truncate_at_stop: Truncate, counts_only_output: bool = True
    ) -> Truncation:
        """Append the output tokens up to the first that ends each request, and count these alone."""
        return super().end_requests(accept_index, predict, truncate_at_stop, counts_only_output)


class CountsWhatWasOutput(ReferenceNgramWorker):
    """Counts as DFLASH does."""

    def keep_books(self, ledger: IterationLedger) -> None:
        """Take the books, and count in another way."""
        super().keep_books(OutputLedger(ledger._scheduler))


class SaidAtOnce(ReferenceNgramWorkerV2):
    """Inserts what the verify has just output."""

    def _insert(self, rows: Sequence[int], said: Sequence[Sequence[int]]) -> None:
        super()._insert(rows, [self._texts.last_tokens(row) for row in rows])


class SaidTwoLate(ReferenceNgramWorkerV2):
    """Inserts texts as they were in front of the verify before."""

    _before: Sequence[Sequence[int]] = ()

    def _insert(self, rows: Sequence[int], said: Sequence[Sequence[int]]) -> None:
        super()._insert(rows, self._before)
        self._before = said


class FirstOfABatchSaid(ReferenceNgramWorkerV2):
    """Inserts the text of the first request for each of a batch."""

    def _insert(self, rows: Sequence[int], said: Sequence[Sequence[int]]) -> None:
        super()._insert(rows, [said[0]] * len(rows))


class DraftOfTheNeighbour(ReferenceNgramWorkerV2):
    """Draws what follows the root from the text of the next request of the batch."""

    def _continue(self, texts: Sequence[Sequence[int]]) -> list[NgramDraft]:
        own = super()._continue(texts)
        others = [*own[1:], *own[:1]]
        return [
            replace(other, tokens=np.concatenate([draft.tokens[:1], other.tokens[1:]]))
            for draft, other in zip(own, others, strict=True)
        ]


_FAULTS: tuple[tuple[str, str, type[ReferenceNgramWorker]], ...] = (
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
    ("OWN-2116", "The counter of a request loses the drafts that were accepted behind its end.", CountsWhatWasOutput),
    ("OWN-2115", "Of several texts from outside the last one alone is asked.", BudgetOfEach),
)

_FAULTS_OF_V2: tuple[tuple[str, str, type[ReferenceNgramWorkerV2]], ...] = (
    ("OWN-2110", "V2 inserts what the host has not seen yet.", SaidAtOnce),
    ("OWN-2111", "V2 inserts a text two verifies late.", SaidTwoLate),
    ("OWN-2112", "V2 inserts the text of the first request of a batch for each.", FirstOfABatchSaid),
    ("OWN-2113", "V2 drafts for each request what follows the text of its neighbour.", DraftOfTheNeighbour),
)

MUTANTS = (
    *(Mutant(number, "NgramStore", summary, unchanged, workers={"ngram": kind}) for number, summary, kind in _FAULTS),
    *(
        Mutant(number, "NgramStore", summary, unchanged, workers={"ngram_v2": kind})
        for number, summary, kind in _FAULTS_OF_V2
    ),
)
