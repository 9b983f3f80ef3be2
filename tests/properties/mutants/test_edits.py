"""Faults as edits: they fit the source once or say so, and change what is named and nothing beside it."""

import inspect
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.host.ngram import NgramCorpus, NgramParameters, NgramStore
from specsim.host.ngram.continuation import most_common
from specsim.properties.mutants import all_mutants
from specsim.properties.mutants.edits import DoesNotFitError, edit, edited, faults_in
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.hunt.cases import find_breaking
from specsim.reference import (
    argmax_target_predict,
    build_tree,
    probabilities,
    ragged_verify_metadata,
    target_verify_metadata,
    top_k_renorm,
)
from specsim.reference.verify import lay_out_verify
from specsim.reference.walks import Acceptance, Coins, DraftTree, walk_tree
from specsim.reference.worker.sides.ngram import NgramSide
from specsim.rejection import SpecRejection
from specsim.simulation.memory import SlotAllocator
from specsim.simulation.ngram import StoringSide
from specsim.topology import Topology

LAY_OUT = (np.array([0]), np.zeros((1, 8), np.int32), np.array([3]), 2, 5)


def test_an_expression_is_another_and_the_rest_stays():
    faulty = edited("seq_lens[request] + num_queries[request]", "seq_lens[request]", within="lay_out_verify")
    assert faulty(target_verify_metadata)(*LAY_OUT).cache_seqlens.tolist() == [3]
    assert target_verify_metadata(*LAY_OUT).cache_seqlens.tolist() == [5]


def test_statements_are_left_out_or_are_others():
    written = "cu_seqlens_k[request + 1] = cu_seqlens_k[request] + cache_seqlens[request]"
    for new, expected in (("", [0, 0]), ("cu_seqlens_k[request + 1] = 7\ncu_seqlens_k += 1", [1, 8])):
        faulty = edit(target_verify_metadata, written, new, within=lay_out_verify)
        assert faulty(*LAY_OUT).cu_seqlens_k.tolist() == expected


def test_an_expression_that_is_a_statement_gives_way_to_statements():
    written = "children[parent].append(node)"
    faulty = edit(Topology, written, f"if node != 2:\n    {written}", within="Topology.from_parents")
    assert faulty.from_parents([-1, 0, 0]).children == ((1,), (), ())


def test_pieces_of_several_classes_of_a_module_are_replaced_together():
    pieces = ("found[::-1]", "found", "below.values()", "list(below.values())[:1]")
    faulty = edit(NgramCorpus, *pieces, within="specsim.host.ngram.corpus")
    assert faulty(((1, 2, 1, 3),), NgramParameters()).draft((1,)).tokens.tolist()[:3] == [1, 3, 0]


def test_a_call_becomes_several_statements():
    called = "self._free.append(slots)"
    faulty = edit(SlotAllocator, called, f"{called}\nself.freed = slots", within="SlotAllocator._order")
    allocator = faulty(4)
    allocator.free(allocator.allocate(2))
    assert (allocator.num_free, allocator.freed) == (3, [1, 2])


def test_what_is_assigned_to_can_be_replaced():
    faulty = edit(argmax_target_predict, "target_predict[row]", "target_predict[row - 1]")
    assert faulty(np.array([[0, 1], [0, 0], [0, 1]])).tolist() == [0, 1, 1]


def test_a_call_gives_way_to_statements():
    side = edit(
        NgramSide, "self._insert(after.texts)", "self.said = 1\nself.said += 1", within="NgramSide.follow_ragged"
    )
    assert "said" in side.follow_ragged.__code__.co_names and "_insert" not in side.follow_ragged.__code__.co_names


def test_a_replacement_has_numpy_and_what_it_calls():
    def count(text):
        return np.array(text).sum() + len(text)

    side = edit(
        StoringSide,
        "text[-self.parameters.max_depth :]",
        "np.array(count(text))",
        within="StoringSide._end",
        count=count,
    )
    assert side.__new__(side)._end([3, 4]) == 9


@pytest.mark.parametrize(
    ("old", "times"), [("page_size + 7", 0), ("request", 12), ("cache_seqlens = 1", 0), ("req_pool_indices\nx = 1", 0)]
)
def test_what_does_not_stand_there_once_is_refused(old, times):
    with pytest.raises(DoesNotFitError, match=rf"lay_out_verify has {times} times what an edit replaces"):
        edit(target_verify_metadata, old, "1", within="lay_out_verify")


def test_input_is_still_checked():
    faulty = edit(target_verify_metadata, "first_slots[:num_pages] // page_size", "0", within="lay_out_verify")
    with pytest.raises(SpecRejection):
        faulty(*LAY_OUT[:3], 2, 99)


def test_a_class_of_another_module_is_met_edited_by_what_derives_from_it():
    side = edit(NgramSide, "self._end(text)", "self._end(text)[:-1]", within=StoringSide._insert)
    assert side.__name__ == "NgramSide" and side is not NgramSide
    assert side.__mro__[1].__name__ == "StoringSide" and not issubclass(side, StoringSide)
    beside = inspect.getmodule(NgramSide)
    assert side.draft.__globals__["TextsInput"] is beside.TextsInput
    assert side.draft.__globals__["masks_of"] is not beside.masks_of


def test_a_text_of_diffs_says_what_replaces_what():
    text = """
        @@ extend
        1 Too far.
        - end => end + 1
        - raise
        2 Late.
          check(end)
        + end += 1
        - return end
        @@ allocate in Allocator.take

        3 Nothing is counted.
        - if count:
        -     check(count)
        ...
        - return count
        + count = 0
        + return count
        """
    ended = ("return count\n", "count = 0\nreturn count\n")
    assert faults_in(text) == [
        ["extend", "", "1", "Too far.", "end", "end + 1", "raise\n", ""],
        ["extend", "", "2", "Late.", "check(end)\n", "check(end)\nend += 1\n", "return end\n", ""],
        ["allocate", "Allocator.take", "3", "Nothing is counted.", "if count:\n    check(count)\n", "", *ended],
    ]


def test_a_module_that_leads_nowhere_is_refused():
    with pytest.raises(DoesNotFitError, match=r"store meets nothing of specsim\.host\.ngram\.continuation that is"):
        edit(NgramStore, "child.token", "-child.token", within=most_common)
    with pytest.raises(DoesNotFitError, match="has nothing of"):
        edit(argmax_target_predict, "tuple(map(tuple, children))", "()", within=StoringSide._insert)
    assert build_tree is not edit(build_tree, "children[parent].append(node)", "", within=Topology.from_parents)


def test_a_replacement_may_name_what_is_given_with_it():
    faulty = edit(argmax_target_predict, "logits[row].argmax()", "best(logits[row])", best=len)
    assert faulty(np.array([[1, 0, 0]], np.float32)).tolist() == [3]


def test_pieces_may_stand_in_several_functions_of_a_module():
    pieces = "(weights / total).astype(np.float32)", "2 * weights", "np.sort(weights)[::-1][top_k - 1]", "weights.min()"
    rows, top_k = np.array([[0.5, 0.25, 0.25]], np.float32), np.array([1], np.int32)
    assert edit(top_k_renorm, *pieces, within=probabilities)(rows, top_k).tolist() == [[1.0, 0.5, 0.5]]
    with pytest.raises(DoesNotFitError):
        edit(top_k_renorm, *pieces, within="keep_top_k")


def test_a_call_may_become_a_condition():
    tree, row = DraftTree(Topology.from_parents((-1, 0)), (0, 1), num_steps=1), np.array([1.0, 0.0])
    call = tree, Coins(np.array([0.5, 0.5]), 0.5), lambda node: row, Acceptance()
    rejected = "rejected.append((node, token))"
    assert walk_tree(*call).rejected == [(0, 1)]
    assert edit(walk_tree, rejected, f"if node:\n    {rejected}")(*call).rejected == []


@pytest.mark.parametrize("place", ["lay_out_verify", "verify.lay_out_verify", "verify"])
def test_a_name_is_found_where_it_is_imported_and_in_a_module_beside(place):
    faulty = edit(ragged_verify_metadata, "seq_lens[request] + num_queries[request]", "seq_lens[request]", within=place)
    assert faulty(*LAY_OUT[:3], np.array([2], np.int32), 5).cache_seqlens.tolist() == [3]
    assert ragged_verify_metadata(*LAY_OUT[:3], np.array([2], np.int32), 5).cache_seqlens.tolist() == [5]


def parts_of(mutant):
    """Yield what makes each faulty class of a mutant, which a run would first ask for."""
    waiting = [mutant.worker, mutant.worker_v1, mutant.scheduler, *mutant.workers.values()]
    while waiting:
        part = waiting.pop()
        if isinstance(part, partial):
            waiting += [part.func, *part.keywords.values()]
        elif hasattr(part, "faulty"):
            yield part.faulty


def test_every_fault_of_an_engine_fits_where_it_is_planted():
    made = [make() for mutant in all_mutants() for make in parts_of(mutant)]
    assert len(made) > 400


def test_a_fault_that_does_not_fit_kills_nothing():
    def law(backend, case):
        raise DoesNotFitError("nothing is planted")

    with pytest.raises(DoesNotFitError, match="nothing is planted"):
        find_breaking(replace(all_properties()[0], law=law), load("specsim.reference"), [None])
