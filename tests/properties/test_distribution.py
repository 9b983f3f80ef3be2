"""Cells, their weights and edges, and laws that are added up from them."""

from fractions import Fraction

import pytest

from specsim.properties.distribution import (
    EVERYTHING,
    GRID,
    Cell,
    autoregressive,
    cut,
    enumerate_cells,
    exact,
    extend,
    integrate,
    require_same_law,
    shares,
)

HALF, THIRD, QUARTER = Fraction(1, 2), Fraction(1, 3), Fraction(1, 4)


def test_breakpoints_are_sorted_clipped_and_counted_once():
    assert cut([HALF, Fraction(3), HALF, Fraction(-1)]) == (Cell(Fraction(0), HALF), Cell(HALF, EVERYTHING))
    assert cut([]) == (Cell(Fraction(0), EVERYTHING),)


def test_the_lower_edge_belongs_to_a_cell_and_the_upper_does_not():
    assert Cell(HALF, Fraction(3, 4)).probes() == (0.5, 0.625, 0.75 - 1 / GRID)


def test_an_edge_off_the_grid_is_tried_on_both_of_its_sides():
    below, above = Cell(Fraction(0), THIRD).probes()[2], Cell(THIRD, EVERYTHING).probes()[0]
    assert above - below == 1 / GRID
    assert Fraction(below) < THIRD < Fraction(above)


def test_slack_moves_inner_edges_only():
    assert Cell(Fraction(0), EVERYTHING).probes(QUARTER) == (0.0, 0.5, 1 - 1 / GRID)
    assert Cell(QUARTER, EVERYTHING).probes(Fraction(1, 8))[::2] == (0.375, 1 - 1 / GRID)
    assert Cell(QUARTER, EVERYTHING).probes(Fraction(1, 8), Fraction(1, 8))[::2] == (0.375, 0.875 - 1 / GRID)


def test_a_cell_that_slack_leaves_empty_is_tried_in_its_middle():
    assert Cell(QUARTER, HALF).probes(HALF) == (0.375,) * 3


def test_a_cell_of_one_coin_is_that_coin():
    assert Cell(HALF, HALF + Fraction(1, GRID)).probes() == (0.5,) * 3


def test_weights_of_a_product_add_up_to_one():
    cells = enumerate_cells([cut([THIRD]), cut([HALF, QUARTER]), cut([])])
    assert sum(cells.weights) == 1
    assert len(cells.weights) == 6
    assert cells.coins.shape == (18, 3)


def test_without_coins_there_is_one_certain_cell():
    cells = enumerate_cells([])
    assert cells.weights == (EVERYTHING,)
    assert cells.law_of([(5,)] * 3) == {(5,): EVERYTHING}


def test_the_law_of_a_threshold_is_its_size():
    law = integrate([cut([THIRD])], lambda coins: [(int(row[0] * 3 >= 1),) for row in coins.astype(float)])
    assert law == {(0,): THIRD, (1,): Fraction(2, 3)}


def test_a_breakpoint_that_is_not_enumerated_is_found():
    with pytest.raises(AssertionError) as caught:
        integrate([cut([HALF])], lambda coins: [(int(row[0] > 0.5),) for row in coins])
    assert str(caught.value) == "outcome at coins [0.5] = (0,), but should be (1,) as in its cell"


def test_shares_are_prefix_sums_of_the_total():
    assert shares([QUARTER, Fraction(0), QUARTER]) == [HALF, HALF, EVERYTHING]
    assert shares([Fraction(0)]) == []


def test_a_law_is_continued_to_its_horizon():
    rows = {(): (HALF, HALF), (0,): (QUARTER, Fraction(3, 4)), (1,): (EVERYTHING, Fraction(0))}
    whole = autoregressive(rows.__getitem__, 2)
    assert whole == {(0, 0): Fraction(1, 8), (0, 1): Fraction(3, 8), (1, 0): HALF}
    assert extend({(0,): HALF, (1, 0): HALF}, rows.__getitem__, 2) == whole
    assert extend({(0, 0, 7): EVERYTHING}, rows.__getitem__, 2) == {(0, 0): EVERYTHING}


def test_a_difference_names_the_sequence_and_both_fractions():
    with pytest.raises(AssertionError) as caught:
        require_same_law("law of a coin", {(0,): HALF, (1,): HALF}, {(0,): HALF, (1,): THIRD})
    assert str(caught.value) == "law of a coin: P[1] = 1/2, but should be 1/3"


def test_an_outcome_that_should_not_occur_is_a_difference():
    with pytest.raises(AssertionError, match=r"P\[2\] = 1/2, but should be 0"):
        require_same_law("law", {(1,): HALF, (2,): HALF}, {(1,): HALF})


def test_floats_are_read_as_the_fractions_they_are():
    assert exact([0.5, 0.375]) == (HALF, Fraction(3, 8))
