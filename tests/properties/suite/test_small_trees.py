"""All small trees: everything is enumerated once, the oracle is the reference, faults die in the smallest case."""

from dataclasses import replace
from math import comb

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.conformance.isolation.heartbeat import Cut
from specsim.conformance.limits import SWITCHES, Limits
from specsim.properties.mutants import all_mutants
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.small_trees import run_small_trees
from specsim.properties.suite.small_trees import trial
from specsim.properties.suite.small_trees.drafts import flat_ids, list_parents, selected_by
from specsim.properties.suite.small_trees.every import FORMS, property_of
from specsim.properties.suite.small_trees.shapes import count_selections, ordered_trees
from specsim.properties.suite.small_trees.trial import try_all
from specsim.topology import Topology

REFERENCE = load("specsim.reference")
AGAINST_LOOPS = 7
"""Nodes of the largest trees on which the oracle is compared with the reference."""

ENOUGH = 6
"""Nodes of trees in which every fault shows that is one of trees."""

ELSEWHERE = {
    "B01": "reads on past drafts without a parent, which a draft has not",
    "OWN-42": "needs more than eight nodes",
    "OWN-73": "needs a pool without layers",
    "OWN-76": "needs a call without pairs",
}
GENERATED_ELSEWHERE = ("STRIDE-", "EMPTY-", "CHECK-", "CRASH-")
"""Kinds of faults that need other layouts, no case at all, or bad input."""


def backend_of(**functions):
    backend = REFERENCE
    for name, function in functions.items():
        backend = backend.with_function(name, function, "planted")
    return backend


def test_every_ordered_tree_is_there_once():
    for num_nodes in range(1, 8):
        trees = list(ordered_trees(num_nodes))
        assert len(trees) == comb(2 * num_nodes - 2, num_nodes - 1) // num_nodes
        assert len({_shape(Topology.from_parents(parents)) for parents in trees}) == len(trees)


def _shape(tree, node=0):
    return tuple(_shape(tree, child) for child in tree.children[node])


@pytest.mark.parametrize("name", FORMS)
def test_cases_are_as_many_as_are_counted_and_no_two_are_equal(name):
    form = FORMS[name]
    for num_nodes in range(1, 7):
        cases = [case for scope in form.scopes(num_nodes) for case in _cases_of(scope)]
        assert len(cases) == form.count(num_nodes)
        # NOTE: selections that differ after the last beam alone make one tree.
        assert name == "build_tree" or len(set(cases)) == len(cases)


def _cases_of(scope):
    """Yield what each case is, without a length that goes from case to case."""
    page_size = scope.sizes.get("page_size", 1)
    columns = {**scope.columns, "seq_lens": scope.columns.get("seq_lens", np.zeros(len(scope))) % page_size}
    rows = np.concatenate([column.reshape(len(scope), -1).astype(np.float64) for column in columns.values()], axis=1)
    for row in rows:
        yield scope.most, *scope.sizes.items(), row.tobytes()


@pytest.mark.parametrize(("topk", "num_steps", "num_drafts"), [(2, 3, 4), (3, 2, 4), (2, 2, 5), (1, 3, 2)])
def test_selections_are_those_of_the_draft_phase(topk, num_steps, num_drafts):
    selected = selected_by(num_drafts + 1, topk, num_steps)
    flat = flat_ids(selected, topk)
    listed = list_parents(selected, flat, topk, num_steps)
    expected = {_tree_of(*case, topk) for case in zip(np.sort(flat, axis=1), listed, strict=True)}
    random = np.random.default_rng(0)
    drafted = set()
    for _ in range(60 * len(expected) + 200):
        drafted.add(_tree_of(*_drafted(random, topk, num_steps, num_drafts), topk))
    assert drafted == expected
    assert count_selections(num_drafts, topk, num_steps) == len(flat)


def _drafted(random, topk, num_steps, num_drafts):
    """Draft once with drawn probabilities; return what is kept, and the beams of all levels."""
    scores, blocks = None, []
    for step in range(num_steps):
        rows = 1 if step == 0 else topk
        topk_p = -np.sort(-(random.uniform(0.01, 1, (rows, topk)) ** random.uniform(0.2, 5))).astype(np.float32)
        tokens = np.zeros((rows, topk), dtype=np.int64)
        chosen = REFERENCE.select_top_k_tokens(step, topk_p, tokens, None, scores, topk)
        scores = chosen.next_scores
        blocks.append((chosen.score_block, chosen.token_block, chosen.parent_block))
    kept = REFERENCE.organize_draft_results(*map(list, zip(*blocks, strict=True)), num_drafts + 1)
    return kept.top_scores_index[0], np.concatenate([parents[0] for _, _, parents in blocks])


def _tree_of(kept, listed, topk):
    """Return the kept ids, each with its parent."""
    return tuple((int(flat), int(listed[flat // topk]) if flat >= topk else -1) for flat in kept)


@pytest.mark.parametrize("name", FORMS)
def test_the_oracle_is_the_reference(name):
    tried = try_all(FORMS[name], REFERENCE, AGAINST_LOOPS)
    assert (tried.error, tried.cases) == (None, FORMS[name].count_up_to(AGAINST_LOOPS))


def mutants():
    planted = [one for one in all_mutants() if one.operation in FORMS and not one.id.startswith(GENERATED_ELSEWHERE)]
    return [one for one in planted if not (one.worker or one.worker_v1 or one.scheduler or one.workers)]


def test_faults_of_trees_die_in_small_ones():
    def lives(mutant):
        sizes = (3, ENOUGH)
        return all(try_all(FORMS[mutant.operation], mutant.plant(REFERENCE), size).error is None for size in sizes)

    assert {one.id for one in mutants() if lives(one)} == set(ELSEWHERE)


LINKS = ([1, 3, -1, -1, 5, -1], [-1, 2, -1, 4, -1, -1])


def short_by_one_in_one_tree(**arguments):
    outputs = REFERENCE.verify_tree_greedy(**arguments)
    names = ("retrieve_next_token", "retrieve_next_sibling")
    for request, links in enumerate(zip(*(arguments[name].tolist() for name in names), strict=True)):
        outputs.num_accepted_drafts[request] -= links == LINKS and outputs.num_accepted_drafts[request] == 3
    return outputs


def test_a_fault_in_one_tree_of_six_nodes_is_found_with_that_tree():
    name = "verify_tree_greedy"
    faulty = backend_of(**{name: short_by_one_in_one_tree})
    report, failure = run_small_trees(property_named(property_of(name)), faulty, 8)
    assert report.failed and failure.operation == name
    assert failure.message == "verify_tree_greedy: num_accepted_drafts[0] = 2, but should be 3"
    assert failure.case["candidates"].tolist() == [[0, 1, 2, 3, 4, 5]]
    assert failure.case["retrieve_next_token"].tolist() == [LINKS[0]]
    assert failure.case["num_steps"] == 3
    assert try_all(FORMS[name], faulty, 5).error is None


def test_a_fault_between_two_requests_keeps_both():
    def confuses_two_paths(accept_index, out_cache_loc):
        slots = REFERENCE.fill_accept_out_cache_loc(accept_index, out_cache_loc)
        nodes = (accept_index % 4).tolist()
        slots[0] += [0, 1, 2, 3] in nodes and [0, 3, 1, 2] in nodes
        return slots

    name = "fill_accept_out_cache_loc"
    tried = try_all(FORMS[name], backend_of(**{name: confuses_two_paths}), 8)
    assert tried.scope.columns["path"].tolist() == [[0, 1, 2, 3], [0, 3, 1, 2]]


def last_of_equals(score_list, token_list, parents_list, num_draft_tokens):
    num_requests, topk = score_list[0].shape[0], score_list[0].shape[2]
    scores = np.concatenate([block.reshape(num_requests, -1) for block in score_list], axis=1)
    place = np.arange(scores.shape[1])
    levels = np.where(place < topk, 0, 1 + (place - topk) // topk**2)
    best = [np.lexsort((-place, levels, -row))[: num_draft_tokens - 1] for row in scores]
    kept = np.sort(np.array(best), axis=1)
    tokens = np.take_along_axis(np.concatenate(token_list, axis=1), kept, axis=1)
    return np.concatenate([np.zeros((num_requests, 0), np.int64), *parents_list[:-1]], axis=1), kept, tokens


def test_ties_that_a_module_breaks_otherwise_are_no_fault():
    name = "organize_draft_results"
    other = backend_of(**{name: last_of_equals})
    assert "top_scores_index" in str(try_all(FORMS[name], other, 5).error)
    assert try_all(FORMS[name], replace(other, limits=Limits(ties_are_free=True)), 5).error is None


def test_what_raises_is_wrong_too():
    def raises(seq_lens, evict_mask, num_draft_tokens, page_size):
        raise IndexError(f"no page of {page_size}")

    tried = try_all(FORMS["align_evict_mask_to_page_size"], backend_of(align_evict_mask_to_page_size=raises), 4)
    assert (str(tried.error), len(tried.scope), tried.cases) == ("no page of 1", 1, 1)


def test_calls_stay_within_what_a_module_takes():
    def few(**arguments):
        assert len(arguments["candidates"]) <= 10
        return REFERENCE.verify_tree_greedy(**arguments)

    name = "verify_tree_greedy"
    values = {name: {"request": range(1, 11), "num_steps": (0, 1, 2)}}
    backend = replace(backend_of(**{name: few}), limits=Limits(values, has_distinct_siblings=True))
    report, failure = run_small_trees(property_named(property_of(name)), backend, 4)
    assert failure is None
    twins, steps = report.left_out.values()
    assert set(report.left_out) == {SWITCHES["DISTINCT_SIBLINGS"], f"{name} with num_steps other than 0 or 1 or 2"}
    assert report.examples + twins + steps == FORMS[name].count_up_to(4)
    assert min(report.examples, twins, steps) > 0


def test_a_smaller_call_is_one_that_a_module_takes():
    name = "verify_tree_greedy"
    limits = Limits({name: {"request": range(3, 100)}})
    tried = try_all(FORMS[name], replace(backend_of(**{name: short_by_one_in_one_tree}), limits=limits), 6)
    assert 3 <= len(tried.scope) < 6


def test_a_fault_is_kept_where_time_is_up_before_it_is_small(monkeypatch):
    def cut(*_):
        raise Cut

    monkeypatch.setattr(trial, "smallest", cut)
    name = "verify_tree_greedy"
    faulty = backend_of(**{name: short_by_one_in_one_tree})
    report, failure = run_small_trees(property_named(property_of(name)), faulty, 6)
    assert report.failed and len(failure.case["candidates"]) > 1


def test_a_cut_says_how_far_it_came(monkeypatch):
    calls = iter(range(3))

    def begin():
        if next(calls, None) is None:
            raise Cut

    monkeypatch.setattr(trial, "begin_example", begin)
    one = property_named("agreement.gather_accept_tokens")
    report, failure = run_small_trees(one, REFERENCE, 5)
    assert failure is None and report.cut
    assert report.inconclusive == f"time was enough for {report.examples:,} of 188 cases"
    assert 0 < report.examples < 188
