"""Texts from outside: drafts from documents that never change."""

from collections.abc import Iterator, Sequence

from specsim.host.ngram.continuation import Anchor
from specsim.host.ngram.draft import NgramDraft, draft_after
from specsim.host.ngram.parameters import NgramParameters, check_tokens
from specsim.rejection import Reason, check_range

BETWEEN_DOCUMENTS = -1
"""Stands after each document: no context reaches over it, and nothing that is drafted."""


class CorpusPlace:
    """A token after some context, by the places of a corpus where it is, ascending."""

    def __init__(self, text: tuple[int, ...], places: Sequence[int]) -> None:
        self._text = text
        self.places = places

    @property
    def token(self) -> int:
        """The token."""
        return self._text[self.places[0]]

    @property
    def count(self) -> int:
        """How often it is there."""
        return len(self.places)

    def newest_first(self) -> Iterator["CorpusPlace"]:
        """Yield what follows; the one whose last place is furthest after is the most recent."""
        below: dict[int, list[int]] = {}
        for place in reversed(self.places):
            if self._text[place + 1] != BETWEEN_DOCUMENTS:
                below.setdefault(self._text[place + 1], []).append(place + 1)
        for places in below.values():
            yield CorpusPlace(self._text, places[::-1])


class NgramCorpus:
    """Documents that drafts may come from; they are neither counted again nor forgotten.

    Parameters
    ----------
    documents : sequence of sequences of int
        Their tokens.
    parameters : NgramParameters
        How trees grow, and how long a context is; what follows one may be longer.
    max_tokens : int
        Tokens that all documents may have together.

    Raises
    ------
    SpecRejection
        TOKEN_OUT_OF_RANGE; COUNT_OUT_OF_RANGE: there is no token, or there are too many.

    Notes
    -----
    Source: semantics A.13b.
    """

    def __init__(
        self, documents: Sequence[Sequence[int]], parameters: NgramParameters, max_tokens: int = 10_000_000
    ) -> None:
        num_tokens = sum(len(document) for document in documents)
        because = "it is kept as a whole, and an empty one drafts nothing"
        check_range(Reason.COUNT_OUT_OF_RANGE, "tokens of a corpus", num_tokens, because, 1, max_tokens)
        text: list[int] = []
        for number, document in enumerate(documents):
            text += [*check_tokens(f"documents[{number}]", document), BETWEEN_DOCUMENTS]
        self._text = tuple(text)
        self._parameters = parameters
        self._places: dict[int, list[int]] = {}
        for place, token in enumerate(self._text):
            self._places.setdefault(token, []).append(place)

    def draft(self, tokens: Sequence[int], num_draft_tokens: int | None = None) -> NgramDraft:
        """Continue a text by what follows its ends in the documents, as a store does.

        Raises
        ------
        SpecRejection
            As for the draft of a store.
        """
        return draft_after(tokens, self._anchors, self._parameters, num_draft_tokens)

    def _anchors(self, context: tuple[int, ...]) -> list[Anchor]:
        """Return the ends of a text that the documents have and go on after, the longest first."""
        found: list[Anchor] = []
        places = self._places.get(context[-1], [])
        for length in range(1, min(len(context), self._parameters.max_depth) + 1):
            places = [
                place for place in places if place >= length - 1 and self._text[place - length + 1] == context[-length]
            ]
            if not places:
                break
            node = CorpusPlace(self._text, places)
            if next(node.newest_first(), None) is not None:
                found.append(Anchor(length, node))
        return found[::-1]
