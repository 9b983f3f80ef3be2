"""Ranges of a command line, and what is refused of them."""

import re

import pytest

from specsim.rejection import SpecRejection
from specsim.tuning.ranges import FORM, check_cells, parse_range


def parse(text):
    return parse_range("--steps", text, 1, 1023, "a path fits into a tree")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("4", (4,)),
        ("1,2,4,8", (1, 2, 4, 8)),
        ("1..4", (1, 2, 3, 4)),
        ("4..16..4", (4, 8, 12, 16)),
        ("4..15..4", (4, 8, 12)),
        ("8, 1..2,2", (1, 2, 8)),
    ],
)
def test_a_range_is_its_numbers_in_order(text, numbers):
    assert parse(text) == numbers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"BAD_CONFIGURATION: --steps is empty, but should be {FORM}, because 'nothing' is none"),
        ("1,,2", f"BAD_CONFIGURATION: --steps is 1,,2, but should be {FORM}, because 'nothing' is none"),
        ("a..3", f"BAD_CONFIGURATION: --steps is a..3, but should be {FORM}, because 'a..3' is none"),
        ("-1", f"BAD_CONFIGURATION: --steps is -1, but should be {FORM}, because '-1' is none"),
        (
            "8..4",
            "BAD_CONFIGURATION: --steps is 8..4, but should be a range with a number in it, because 8 is above 4",
        ),
        (
            "1..4..0",
            "BAD_CONFIGURATION: --steps is 1..4..0, but should be a range with a number in it, because its step is 0",
        ),
        (
            "1..5000000000",
            "COUNT_OUT_OF_RANGE: --steps is 5000000000, but should be 1 to 1023, because a path fits into a tree",
        ),
        ("0..2", "COUNT_OUT_OF_RANGE: --steps is 0, but should be 1 to 1023, because a path fits into a tree"),
    ],
)
def test_what_is_no_range_is_refused_with_the_reason(text, message):
    with pytest.raises(SpecRejection, match=f"^{re.escape(message)}$"):
        parse(text)


def test_a_million_combinations_are_the_most():
    check_cells(1_000_000)
    message = (
        "COUNT_OUT_OF_RANGE: number of combinations is 1,000,001, but should be at most 1,000,000, because each is a "
        "run; ranges may have steps, like 4..64..4"
    )
    with pytest.raises(SpecRejection, match=f"^{re.escape(message)}$"):
        check_cells(1_000_001)
