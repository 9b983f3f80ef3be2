"""Faults in the loop that drafts from a store: each of them breaks the law of whole runs for three seeds."""

import pytest

from specsim.conformance.backend import Completed, load
from specsim.properties.catalogue import all_properties
from specsim.properties.laws.ngram_engine import play_ngram, reference_loop
from specsim.properties.mutants.cases import draw_cases
from specsim.reference.models import load_model
from specsim.reference.worker.ngram import ReferenceNgramWorker

LAW = next(one for one in all_properties() if one.name == "ngram_engine.drafts_are_those_of_all_that_was_said")
ORACLE = load("specsim.reference")


class InsertedStore:
    """A store in front of which something else happens to what is inserted."""

    def __init__(self, store, change):
        self.store, self.change, self.texts = store, change, []

    def __getattr__(self, name):
        return getattr(self.store, name)

    def insert(self, tokens):
        self.texts.append(list(tokens))
        for text in self.change(self.texts):
            self.store.insert(text)


class Faulty(ReferenceNgramWorker):
    """What is inserted is changed by ``change``, given all texts so far."""

    change = staticmethod(lambda texts: texts[-1:])

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.store = InsertedStore(self.store, type(self).change)


class OneStepLate(Faulty):
    change = staticmethod(lambda texts: texts[-2:-1])


class OneTokenShort(Faulty):
    change = staticmethod(lambda texts: [texts[-1][1:]])


class WithoutTheBonus(Faulty):
    change = staticmethod(lambda texts: [texts[-1][:-1]])


class FirstOfABatchAlone(ReferenceNgramWorker):
    def _last_tokens(self, request):
        return super()._last_tokens(self._ledger.requests[0])


class OutputAlone(ReferenceNgramWorker):
    def _last_tokens(self, request):
        return list(request.output[-self.parameters.max_depth :])


class OneTokenMore(ReferenceNgramWorker):
    def _last_tokens(self, request):
        return [*request.prompt, *request.output][-self.parameters.max_depth - 1 :]


class EndedOnesAreLost(Faulty):
    """The text of a request that ended is not inserted."""

    def decode(self, rows, num_steps=None):
        requests, self.num_seen = self._ledger.requests, 0
        self.store.change = lambda texts: texts[-1:] if self.goes_on(requests) else []
        return super().decode(rows, num_steps)

    def goes_on(self, requests):
        self.num_seen += 1
        return requests[self.num_seen - 1].finish is None


FAULTS = (OneStepLate, OneTokenShort, WithoutTheBonus, FirstOfABatchAlone, OutputAlone, OneTokenMore, EndedOnesAreLost)


def makes(kind):
    return lambda run, sizes, operations: kind(run.parameters, load_model(run.model, operations), sizes, operations)


def is_broken_by(kind, seed):
    for run in draw_cases(LAW, seed, 12):
        try:
            play_ngram(run, Completed(ORACLE, ORACLE), makes(kind))
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize("seed", range(3))
def test_the_loop_of_the_reference_holds(seed):
    for run in draw_cases(LAW, seed, 12):
        play_ngram(run, Completed(ORACLE, ORACLE), reference_loop)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_found(kind, seed):
    assert is_broken_by(kind, seed)
