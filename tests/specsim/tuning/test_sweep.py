"""Combinations, the frontier, and rows of a table."""

import csv
import io

import msgspec
import pytest

from specsim.rejection import SpecRejection, contradiction
from specsim.tuning.counted import Cell, RequestCounts
from specsim.tuning.sweep import Ranges, as_csv, combine, count_all, rows_of


def cell(topk, steps, nodes, accepted, forwards=0):
    """Return a configuration whose verifies accept half as many drafts in one of two requests."""
    counts = [[0.0] * (accepted + 1), [0.0] * (accepted + 1)]
    counts[0][accepted] = counts[1][accepted // 2] = 4.0
    requests = tuple(RequestCounts.of(str(place), tuple(one)) for place, one in enumerate(counts))
    return Cell("EAGLE", topk, steps, nodes, step_forwards=forwards, requests=requests)


def test_every_chain_is_one_combination_and_every_tree_one_a_size():
    ranges = Ranges((1, 2), (1, 2), (4, 8))
    assert list(ranges.sizes()) == [(1, 1, 2), (1, 2, 3), (2, 1, 4), (2, 1, 8), (2, 2, 4), (2, 2, 8)]


def test_drafts_without_a_depth_have_nodes_alone():
    assert list(Ranges((1, 2), (1, 2), (4, 8), has_depth=False).sizes()) == [(1, 0, 4), (1, 0, 8), (2, 0, 4), (2, 0, 8)]
    block = Ranges((1, 2), (1, 2), (4, 8), has_depth=False, has_breadth=False)
    assert list(block.sizes()) == [(1, 0, 4), (1, 0, 8)]


def test_more_than_a_million_are_refused_before_they_are_made():
    many = Ranges(tuple(range(1, 257)), tuple(range(1, 1024)), tuple(range(1, 1025)))
    with pytest.raises(SpecRejection, match="number of combinations is 268,173,312, but should be at most 1,000,000"):
        combine([("EAGLE", many)], 0.0)


def test_a_combination_that_is_refused_has_the_reason():
    def count(one):
        if one.topk == 2:
            raise contradiction("topk", 2, "1", "it is so")
        return one

    counted = list(count_all([cell(1, 1, 2, 1), cell(2, 1, 3, 1)], count))
    assert [one.reason for one in counted] == ["", "topk is 2, but should be 1, because it is so"]


def test_the_frontier_by_hand():
    cells = [
        cell(1, 2, 3, 2, forwards=2),
        cell(1, 3, 4, 2, forwards=3),
        cell(4, 1, 3, 2, forwards=1),
        cell(4, 2, 8, 4, forwards=2),
        msgspec.structs.replace(cell(4, 2, 8, 6), reason="no such tree", requests=()),
    ]
    assert [row.is_frontier for row in rows_of(cells, 0)] == [False, False, True, True, False]


def test_equal_combinations_are_both_on_the_frontier():
    assert [row.is_frontier for row in rows_of([cell(1, 2, 3, 2), cell(2, 1, 3, 2)], 0)] == [True, True]


def test_a_line_of_csv_has_figures_or_the_reason():
    refused = Cell("EAGLE", 2, 1, 9, reason="topk is 2, but should be 1, because it is so")
    first, second = csv.DictReader(io.StringIO(as_csv(rows_of([cell(1, 2, 3, 2, forwards=2), refused], 0))))
    assert {name: first[name] for name in ("drafter", "topk", "steps", "draft_tokens", "requests", "verifies")} == {
        "drafter": "EAGLE",
        "topk": "1",
        "steps": "2",
        "draft_tokens": "3",
        "requests": "2",
        "verifies": "8.0",
    }
    assert (first["accepted_per_verify"], first["tokens_per_verify"], first["draft_forwards"]) == ("1.5", "2.5", "2")
    assert float(first["tokens_low"]) <= 2.5 <= float(first["tokens_high"])
    assert (first["frontier"], first["reason"]) == ("True", "")
    assert (second["tokens_per_verify"], second["frontier"], second["reason"]) == ("", "False", refused.reason)
