import numpy as np
import pytest

from specsim.cli.drawing import arrays_table, draw_trees
from specsim.cli.output import progress
from specsim.conformance.backend import load
from specsim.conformance.cases import Case, case_arguments, write_case
from specsim.conformance.outcomes import Observation, observe
from specsim.conformance.stored import Provenance


def verify_case(directory):
    values = {
        "candidates": np.array([[5, 6, 7, 8]]),
        "retrieve_index": np.array([[0, 1, 2, 3]]),
        "retrieve_next_token": np.array([[1, -1, 3, -1]]),
        "retrieve_next_sibling": np.array([[-1, 2, -1, -1]]),
        "target_predict": np.array([[7, 0, 8, 9]]),
        "num_steps": 2,
    }
    arguments = case_arguments("verify_tree_greedy", values)
    expected = observe(load("specsim.reference"), "verify_tree_greedy", arguments)
    provenance = Provenance("my_kernels", 7)
    observed = Observation(error="IndexError: [9]")
    return write_case(Case("verify_tree_greedy", "law", arguments, expected, observed, "words", provenance), directory)


def test_a_case_is_drawn_with_its_accepted_path(specsim, tmp_path):
    path = verify_case(tmp_path)
    got = specsim("show", path)
    assert got.exit_code == 0, got.output
    drawn = [line.strip("│├└─ ") for line in got.stdout.splitlines() if "node " in line]
    assert drawn == ["request 0: node 0 token 5 *", "node 1 token 6", "node 2 token 7 *", "node 3 token 8 *"]
    assert "observed: IndexError: [9]" in got.stdout


@pytest.mark.parametrize(
    ("next_sibling", "drawn"),
    [
        ([-1, -1, -1, 2], ["node 0 token 5 *", "node 3 token 8", "node 2 token 7 *"]),
        ([-1, -1, 3, 2], ["has no tree: CYCLIC_TREE: next_sibling[2] is 3"]),
    ],
)
def test_siblings_stand_in_their_order_and_links_that_are_no_tree_are_named(next_sibling, drawn):
    arrays = {
        "retrieve_next_token": np.array([[3, -1, -1, -1]]),
        "retrieve_next_sibling": np.array([next_sibling]),
        "candidates": np.array([[5, 6, 7, 8]]),
        "accept_index": np.array([[0, 2]]),
    }
    case = Case("verify_tree_greedy", "law", arrays, Observation(), Observation(), "", Provenance("my_kernels", 7))
    (tree,) = draw_trees(case)
    labels = [str(tree.label), *(str(child.label) for child in tree.children)]
    assert [label.removeprefix("request 0: ").removeprefix("request 0 ").split(", but")[0] for label in labels] == drawn


def test_a_replay_names_the_missing_operation(specsim, tmp_path):
    path = verify_case(tmp_path)
    got = specsim("replay", path, "--impl", "json")
    assert (got.exit_code, got.stdout[:9]) == (4, "! CRASHED")
    assert "json does not define verify_tree_greedy" in got.stdout


def test_no_progress_bar_without_a_terminal(capsys):
    with progress("work") as on_progress:
        assert on_progress is None
    assert capsys.readouterr() == ("", "")


def test_lists_are_shown_entry_by_entry_and_long_arrays_with_their_beginning():
    table = arrays_table("arguments", {"kv_buffers": [np.zeros(2), None], "slots": np.arange(1000), "num_steps": 3})
    columns = [list(column.cells) for column in table.columns]
    assert columns[0] == ["kv_buffers[0]", "kv_buffers[1]", "slots", "num_steps"]
    assert columns[1] == ["float64", "", "int64", ""]
    assert columns[3][0] == "[0.0, 0.0]"
    assert columns[3][2].endswith(" …") and len(columns[3][2]) < 400
    assert columns[3][3] == "3"


def test_a_case_without_links_has_no_tree_to_draw():
    case = Case("fast_topk", "law", {"k": 1}, Observation(), Observation(), "", Provenance("my_kernels", 7))
    assert draw_trees(case) == []


def test_words_of_a_stranger_are_shown_in_one_line_without_control_characters(specsim, tmp_path):
    values = {"accept_tokens": np.array([[5]], dtype=np.int32), "num_accepted_tokens": np.array([1], dtype=np.int32)}
    arguments = case_arguments("fill_bonus_tokens", values)
    expected = observe(load("specsim.reference"), "fill_bonus_tokens", arguments)
    nasty = "\x1b[2Jgone\r\n+ FIXED \u202eereh\u2066\x07\x9b1m [bold]"
    words = Observation(error=nasty)
    case = Case("fill_bonus_tokens", "law", arguments, expected, words, nasty, Provenance("my_kernels", 7))
    got = specsim("show", write_case(case, tmp_path))
    assert got.exit_code == 0
    assert all(line.isprintable() for line in got.stdout.splitlines())
    assert got.stdout.count(r"\x1b[2Jgone\r\n+ FIXED \u202eereh\u2066\x07\x9b1m [bold]") == 2
