"""Engines of other parameters go on in the pools of NGRAM and DFLASH, and what one of them takes along is found."""

from dataclasses import replace
from functools import partial

import pytest

from specsim.host.dflash import DflashParameters
from specsim.host.logit_rules import LogitRules
from specsim.host.ngram import NgramParameters, TreeMode
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.histories import VOCABULARY
from specsim.properties.runs.scenario import Arrival
from specsim.properties.soak.alone import run_together
from specsim.properties.soak.history import replay
from specsim.properties.soak.machine import Machine
from specsim.properties.soak.rules import Action
from specsim.properties.soak.setups import setup_of
from specsim.properties.soak.subject import REFERENCE, Subject
from specsim.simulation.loops import loop_of
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.ngram import has_same_store
from specsim.simulation.schedule import Schedule

STORE = NgramParameters(max_depth=4, max_breadth=2, capacity=500, num_draft_tokens=4)
STORES = {
    "more nodes": replace(STORE, num_draft_tokens=6),
    "no drafts": replace(STORE, num_draft_tokens=1),
    "wider": replace(STORE, max_breadth=4, mode=TreeMode.PROB),
    "deeper": replace(STORE, max_depth=6),
}
BLOCK, WIDE_BLOCK = DflashParameters(4), DflashParameters(8)
TURNS = ("step", 1, "step", 0, "step", 1)


class OldNodes:
    """Says that its drafts have another size, and makes those of before."""

    def resized(self, parameters):
        other = super().resized(parameters)
        other.before, other.side.parameters = self.config, self.side.parameters
        return other

    def decode(self, rows, num_steps=None):
        said, self.config = self.config, vars(self).get("before", self.config)
        iteration = super().decode(rows, num_steps)
        self.config = said
        return iteration


class LostPools:
    """Goes on in pools of its own."""

    def resized(self, parameters):
        return type(self)(parameters, self.model, self.sizes, make_side=self.side.resized)


class OldStore:
    """Asks the store of before, whatever it was made for."""

    def resized(self, parameters):
        other = super().resized(parameters)
        other.side.store = self.side.store
        return other


class LostStore:
    """Forgets what was said."""

    def resized(self, parameters):
        other = super().resized(parameters)
        other.side.store = type(other.side.store)(parameters)
        return other


class OldTexts:
    """Continues, in a row that it takes over, the text that the worker before had there."""

    def resized(self, parameters):
        other = super().resized(parameters)
        other.before = self._waiting.texts
        return other

    def prefill(self, rows, chunks):
        following = super().prefill(rows, chunks)
        for row in rows if "before" in vars(self) else ():
            self._waiting.texts[row] = self.before.get(row, self._waiting.texts[row])
        return following


class OldRoots:
    """Starts the first block in a row from the root and the length of the worker before."""

    def resized(self, parameters):
        other = super().resized(parameters)
        other.before = self._waiting
        return other

    def prefill(self, rows, chunks):
        following = super().prefill(rows, chunks)
        for row in rows if "before" in vars(self) else ():
            if self.before.seq_lens[row]:
                self._waiting.bonus_tokens[row] = self.before.bonus_tokens[row]
                self._waiting.seq_lens[row] = self.before.seq_lens[row]
        return following


def loops(name):
    return {one: loop_of(one) for one in (name.lower(), f"{name.lower()}_v2")}


def faulty(name, fault):
    """Return an implementation whose workers of an algorithm have a fault."""
    workers = {
        one: partial(type(fault.__name__, (fault, loop.func), {}), **loop.keywords) for one, loop in loops(name).items()
    }
    return Subject(replace(REFERENCE, other_workers=workers))


def changing_setup(name, is_v1, other=None):
    is_store = name == "NGRAM"
    own = STORE if is_store else BLOCK
    return setup_of(
        own,
        HashModel(3 if is_store else VOCABULARY, 5, 0.9),
        2,
        Schedule(has_prefix_cache=True),
        is_v1=is_v1,
        drafter=name,
        others=(other or (STORES["wider"] if is_store else WIDE_BLOCK),),
        num_spare_slots=80,
        longest_prompt=12,
        longest_output=10,
    )


def there_and_back(changes=True):
    prompts = (2, 1, 0, 1, 2, 1, 0, 1, 2), (2, 1, 0, 1, 2, 0)
    turns = [Action("step") if turn == "step" else Action("change engine", turn) for turn in TURNS * 2]
    asked = [Action("admit", Arrival(prompt, 10)) for prompt in prompts]
    return [*asked, *(turn for turn in turns if changes or turn.rule == "step")]


def fails(subject, setup):
    """Return whether a fault is found by changes of engines, and by nothing else."""
    failure = replay(subject, setup, there_and_back())
    assert replay(subject, setup, there_and_back(changes=False)) is None
    return failure is not None and failure.kind in ("AssertionError", "SpecRejection")


@pytest.mark.parametrize("is_v1", [True, False], ids=["V1", "V2"])
@pytest.mark.parametrize(
    ("name", "other"), [*(("NGRAM", one) for one in STORES), ("DFLASH", None)], ids=[*STORES, "a wider block"]
)
def test_engines_of_other_parameters_take_turns_on_the_same_pools(name, other, is_v1):
    setup = changing_setup(name, is_v1, STORES.get(other))
    assert replay(Subject(REFERENCE), setup, there_and_back()) is None
    in_lockstep = Subject(replace(REFERENCE, other_workers=loops(name)))
    assert replay(in_lockstep, setup, there_and_back()) is None


@pytest.mark.parametrize("is_v1", [True, False], ids=["V1", "V2"])
@pytest.mark.parametrize("fault", [LostPools, OldStore], ids=lambda fault: fault.__name__)
def test_what_a_store_of_other_parameters_takes_along_is_found(fault, is_v1):
    assert fails(faulty("NGRAM", fault), changing_setup("NGRAM", is_v1))


def test_texts_of_the_worker_before_are_found():
    assert fails(faulty("NGRAM", OldTexts), changing_setup("NGRAM", is_v1=False))


@pytest.mark.parametrize("is_v1", [True, False], ids=["V1", "V2"])
@pytest.mark.parametrize("fault", [OldNodes, LostStore], ids=lambda fault: fault.__name__)
def test_what_another_number_of_nodes_takes_along_is_found(fault, is_v1):
    assert fails(faulty("NGRAM", fault), changing_setup("NGRAM", is_v1, STORES["more nodes"]))


@pytest.mark.parametrize("is_v1", [True, False], ids=["V1", "V2"])
@pytest.mark.parametrize("fault", [OldNodes, LostPools, OldRoots], ids=lambda fault: fault.__name__)
def test_what_another_block_takes_along_is_found(fault, is_v1):
    assert fails(faulty("DFLASH", fault), changing_setup("DFLASH", is_v1))


def test_a_store_is_kept_as_long_as_its_own_sizes_are():
    assert {name: has_same_store(STORE, other) for name, other in STORES.items()} == {
        "more nodes": True,
        "no drafts": True,
        "wider": False,
        "deeper": False,
    }


def test_machines_say_what_their_engines_may_be_given():
    setup = changing_setup("NGRAM", is_v1=True)
    machine = Machine(Subject(REFERENCE), setup)
    assert (machine.sides.draftings, machine.sides.untried) == ((STORE, STORES["wider"]), None)
    machine.change_engine(STORES["wider"])
    assert machine.sides.drafting == machine.engine.worker.parameters == STORES["wider"]


def test_sampled_blocks_may_differ_with_their_company_where_rules_make_tokens_equal():
    setup = changing_setup("DFLASH", is_v1=False).having(
        max_batch=1,
        model=HashModel(VOCABULARY, 3550131924, 0.3, 2),
        sizes=DflashParameters(16),
        has_sampling=True,
        longest_output=16,
    )
    sampling = SamplingParameters(4.0, top_k=5, top_p=0.85, seed=1865367026)
    ruled = Arrival((20, 11, 24), 16, sampling=sampling, logit_rules=LogitRules(logit_bias=((16, 6.0),)))
    beside = Arrival((16,), 16, sampling=SamplingParameters(4.0, top_p=0.85, min_p=0.03, seed=3438353633))
    requests = [ruled.request(0), beside.request(1)]
    alone, together = (run_together(setup, some)[0].output for some in (requests[:1], requests))
    assert alone != together
    assert replay(Subject(REFERENCE), setup, [Action("admit", one) for one in (ruled, beside)]) is None
