import pytest

from specsim.contracts.axes import UnboundAxis, divisors_of, evaluate, names_of, spelt


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("draft+1", 4),
        ("request*node", 12),
        ("topk*(step-1)+1 if step > 1 else 0", 5),
        ("-(-node//4)", 2),
        ("2**31", 2**31),
        ("'bool' if node <= 8 else 'uint8'", "bool"),
        ("request == 2 and node != 6", False),
        ("request == 2 or node != 6", True),
        ("1 < request < 3", True),
    ],
)
def test_expressions(expression, value):
    assert evaluate(expression, {"draft": 3, "request": 2, "node": 6, "topk": 2, "step": 3}) == value


def test_only_the_taken_branch_needs_names():
    assert evaluate("1 if index == 0 else topk", {"index": 0}) == 1


def test_an_unbound_name_is_named():
    with pytest.raises(UnboundAxis, match="node"):
        evaluate("request*node", {"request": 2})


def test_a_call_is_no_expression():
    with pytest.raises(SyntaxError):
        evaluate("open('x')", {})


def test_names():
    assert names_of("request*(draft+1) if node else 0") == {"request", "draft", "node"}


def test_names_are_replaced_in_source_text():
    assert spelt("topk+1 if index == 0 else topk", {"index": "_index", "topk": 0}) == "0 + 1 if _index == 0 else 0"


@pytest.mark.parametrize(
    ("expression", "divisors"),
    [("n//page", {"page"}), ("-(-(page-1+n)//page) + a%(b+c)", {"page", "b", "c"}), ("a//2*n", set()), ("n", set())],
)
def test_names_that_are_divided_by(expression, divisors):
    assert divisors_of(expression) == divisors
