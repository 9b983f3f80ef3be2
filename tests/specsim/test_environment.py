import pytest

from specsim.environment import DEBUG, says_yes


@pytest.mark.parametrize(
    ("value", "expected"),
    [("1", True), ("TRUE", True), ("on", True), ("Yes", True), ("y", True), ("0", False), ("", False), ("off", False)],
)
def test_a_variable_says_yes_in_the_words_of_triton(monkeypatch, value, expected):
    monkeypatch.setenv(DEBUG, value)
    assert says_yes(DEBUG) is expected


def test_a_variable_that_is_not_there_says_no(monkeypatch):
    monkeypatch.delenv(DEBUG, raising=False)
    assert says_yes(DEBUG) is False
