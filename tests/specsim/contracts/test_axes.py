import pytest

from specsim.contracts.axes import UnboundAxis, evaluate, names_of, solve


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


@pytest.mark.parametrize(
    ("expression", "size", "solution"),
    [
        ("draft+1", 4, ("draft", 3)),
        ("request*node", 12, ("node", 6)),
        ("node-1", 5, ("node", 6)),
        ("request", 2, None),
        ("draft*node", 12, None),
        ("0*node", 0, None),
    ],
)
def test_solutions(expression, size, solution):
    assert solve(expression, size, {"request": 2}) == solution


@pytest.mark.parametrize(("expression", "size"), [("request*node", 13), ("draft+1", 0)])
def test_sizes_without_a_solution(expression, size):
    with pytest.raises(ArithmeticError):
        solve(expression, size, {"request": 2})
