"""An n-gram store of somebody else is held to the same laws: one of plain lists passes, and one that is wrong fails."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from specsim import Reason, SpecRejection
from specsim.conformance.backend import load
from specsim.properties.host.ngram.oracle import PlainStore, created_nodes, numbered_nodes
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.hunt.cases import draw_cases, find_breaking

REFERENCE = load("specsim.reference")
LAWS = {one.name.partition(".")[2]: one for one in all_properties() if one.operations == ("NgramStore",)}


@dataclass
class ForeignDraft:
    tokens: np.ndarray
    tree_mask: np.ndarray


class ForeignStore:
    """A store that computes in doubles and numbers siblings as it likes."""

    def __init__(self, parameters):
        self.plain = PlainStore(parameters)

    @property
    def num_nodes(self):
        return self.plain.num_nodes

    @property
    def num_forgotten(self):
        return self.plain.num_forgotten

    def insert(self, tokens):
        self.check(tokens)
        self.plain.insert(tuple(tokens))

    def draft(self, tokens, num_draft_tokens=None):
        if not len(tokens):
            raise refusal(Reason.COUNT_OUT_OF_RANGE)
        self.check(tokens)
        sizes = self.plain.parameters
        num_nodes = sizes.num_draft_tokens if num_draft_tokens is None else num_draft_tokens
        if not 1 <= num_nodes <= 1024:
            raise refusal(Reason.SCALAR_OUT_OF_RANGE)
        created = created_nodes(self.plain.below(), tuple(tokens), sizes, num_nodes - 1, float)
        paths = [(), *self.numbered(created), *[(0,)] * (num_nodes - 1 - len(created))]
        mask = np.array([[one[: len(other)] == other for other in paths] for one in paths])
        first_padding = len(created) + 1
        mask[:, first_padding:] = mask[first_padding:, 1:] = False
        np.fill_diagonal(mask, True)
        return ForeignDraft(np.array([tokens[-1], *(path[-1] for path in paths[1:])]), mask)

    def numbered(self, created):
        return sorted(numbered_nodes(created), key=lambda path: (len(path), path))

    def check(self, tokens):
        if any(not 0 <= token < 2**31 for token in tokens):
            raise refusal(Reason.TOKEN_OUT_OF_RANGE)


class NumberedStore(ForeignStore):
    """The same, with siblings in the order of their creation."""

    def numbered(self, created):
        return numbered_nodes(created)


class ForgetfulStore(NumberedStore):
    """A store that forgets all where it has no room for a text."""

    def insert(self, tokens):
        self.check(tokens)
        if len(tokens) + self.num_nodes > self.plain.parameters.capacity:
            self.plain = PlainStore(self.plain.parameters)
        self.plain.insert(tuple(tokens))


def refusal(reason):
    return SpecRejection(reason, what="tokens", got="some", expected="others", because="they are ids")


@cache
def cases_of(name):
    return draw_cases(LAWS[name], 1, 8)


def failing(store):
    backend = REFERENCE.with_function("NgramStore", store, "somebody's")
    return {name for name, law in LAWS.items() if find_breaking(law, backend, cases_of(name)) is not None}


@pytest.mark.parametrize(
    ("store", "broken"),
    [
        (NumberedStore, set()),
        (ForeignStore, {"nodes_are_numbered_level_by_level_as_created"}),
    ],
)
def test_a_store_of_plain_lists_is_held_to_every_law(store, broken):
    assert len(LAWS) == 7
    assert failing(store) == broken


def test_a_store_that_forgets_too_much_is_named():
    assert "a_store_forgets_what_it_has_no_room_for" in failing(ForgetfulStore)
