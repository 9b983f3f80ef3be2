"""What a case expects beside what was got."""

import numpy as np
import pytest

from specsim.conformance.cases import Case
from specsim.conformance.outcomes import Observation
from specsim.conformance.stored import Provenance
from specsim.reports.compared import MOST_PLACES, Compared, Piece, compared

TOKENS = np.array([[4, 5, 6], [7, 8, 9]], np.int32)


def case_of(expected, observed, tokens=TOKENS):
    counts = np.array([2, 3], np.int32)
    arguments = {"accept_tokens": tokens, "num_accepted_tokens": np.resize(counts, len(tokens))}
    return Case("fill_bonus_tokens", "p", arguments, expected, observed, "", Provenance("m", 1, {}))


def outputs(array):
    return Observation({"bonus_tokens": array})


def words(lines):
    return ["".join(piece.text for piece in line) for line in lines]


def test_entries_that_differ_are_marked():
    expected, got = np.array([5, 9], np.int32), np.array([5, 8], np.int32)
    opening, comma, closing = Piece("["), Piece(", "), Piece("]")
    assert compared(case_of(outputs(expected), outputs(got))) == [
        Compared(
            "bonus_tokens",
            "int32 [2]",
            ((opening, Piece("5"), comma, Piece("9", differs=True), closing),),
            ((opening, Piece("5"), comma, Piece("8", differs=True), closing),),
            True,
        )
    ]


def test_entries_without_meaning_are_in_parentheses_and_differ_from_nothing():
    arguments = {
        "candidates": np.array([[1, 2]], np.int64),
        "retrieve_index": np.array([[0, 1]], np.int64),
        "retrieve_next_token": np.array([[-1, -1]], np.int64),
        "retrieve_next_sibling": np.array([[-1, -1]], np.int64),
        "target_predict": np.array([[3, 4]], np.int64),
        "num_steps": 1,
    }
    rest = {"accept_index": np.array([[0, -1]], np.int32), "num_accepted_drafts": np.array([0], np.int32)}
    expected, got = (Observation({"predict": np.array([3, end], np.int32), **rest}) for end in (0, 7))
    case = Case("verify_tree_greedy", "p", arguments, expected, got, "", Provenance("m", 1, {}))
    predict, *others = compared(case)
    assert (words(predict.expected), words(predict.got)) == (["[3, (0)]"], ["[3, (7)]"])
    assert [one.differs for one in (predict, *others)] == [False, False, False]
    assert predict.got[0][3] == Piece("(7)", is_undefined=True)


def test_of_a_large_array_the_places_that_differ_are_shown():
    tokens = np.resize(TOKENS, (400, 3))
    expected, got = np.zeros(400, np.int32), np.zeros(400, np.int32)
    got[100:150] = 1
    (one,) = compared(case_of(outputs(expected), outputs(got), tokens))
    assert words(one.got) == [*(f"[{place}] = 1" for place in range(100, 100 + MOST_PLACES)), "and 38 more"]
    assert words(one.expected)[0] == "[100] = 0" and one.differs
    (same,) = compared(case_of(outputs(expected), outputs(expected.copy()), tokens))
    assert (words(same.got), same.differs) == (["the same"], False)


def test_another_form_is_what_differs():
    expected = np.array([5, 9], np.int32)
    (one,) = compared(case_of(outputs(expected), outputs(expected.astype(np.int64))))
    assert (words(one.expected), words(one.got), one.differs) == (
        ["int32 [2]", "[5, 9]"],
        ["int64 [2]", "[5, 9]"],
        True,
    )


@pytest.mark.parametrize(
    ("expected", "observed", "lines"),
    [
        (outputs(TOKENS[0]), Observation(error="ValueError: no"), ("arrays", "ValueError: no")),
        (Observation(rejection="BAD_SHAPE"), outputs(TOKENS[0]), ("a rejection, BAD_SHAPE", "arrays")),
    ],
)
def test_a_call_that_ended_otherwise_is_its_outcome(expected, observed, lines):
    (one,) = compared(case_of(expected, observed))
    assert (one.name, words(one.expected), words(one.got), one.differs) == ("outcome", [lines[0]], [lines[1]], True)


def test_floats_that_differ_by_rounding_are_not_marked():
    wanted = np.array([[0.25, 0.75]], np.float32)
    for got, differs in ((wanted * np.float32(1 + 1e-6), False), (wanted[:, ::-1].copy(), True)):
        case = Case(
            "top_p_renorm",
            "p",
            {"probabilities": wanted, "top_p": np.ones(1, np.float32)},
            Observation({"renormalised": wanted}),
            Observation({"renormalised": got}),
            "",
            Provenance("m", 1, {}),
        )
        (one,) = compared(case)
        assert one.differs == differs
