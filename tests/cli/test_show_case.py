import numpy as np
import pytest

from specsim.cli.output import progress
from specsim.cli.show import arrays_table
from specsim.conformance.backend import load
from specsim.conformance.cases import Case, case_arguments, write_case
from specsim.conformance.drawing import draw_requests, in_words, strides_of
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
    assert drawn == [
        "request 0: node 0 token 5 -> 7 *",
        "node 1 token 6 -> 0",
        "node 2 token 7 -> 8 *",
        "node 3 token 8 -> 9 *",
    ]
    assert "observed: IndexError: [9]" in got.stdout


@pytest.mark.parametrize(
    ("next_sibling", "drawn"),
    [
        (
            [-1, -1, -1, 2],
            [
                "request 0: node 0 token 5 *",
                "  ├── node 3 token 8",
                "  └── node 2 token 7 *",
                "  accepted path [0], but should be [0, 2]",
            ],
        ),
        ([-1, -1, 3, 2], ["request 0 has no tree: CYCLIC_TREE: next_sibling[2] is 3"]),
    ],
)
def test_siblings_stand_in_their_order_and_links_that_are_no_tree_are_named(next_sibling, drawn):
    arrays = {
        "retrieve_next_token": np.array([[3, -1, -1, -1]]),
        "retrieve_next_sibling": np.array([next_sibling]),
        "candidates": np.array([[5, 6, 7, 8]]),
    }
    paths = [Observation({"accept_index": np.array([path])}) for path in ([0, 2], [0, -1])]
    (drawing,) = draw_requests(Case("verify_tree_greedy", "law", arrays, *paths, "", Provenance("my_kernels", 7)))
    assert [line.split(", but should be -1")[0] for line in drawing.splitlines()] == drawn


def test_a_sampled_tree_is_drawn_with_its_rows_and_coins():
    arrays = {
        "candidates": np.array([[3, 1], [3, 1]]),
        "retrieve_next_token": np.array([[1, -1], [1, -1]]),
        "retrieve_next_sibling": np.full((2, 2), -1),
        "target_probs": np.array([[[0.25, 0.75], [1, 0]], [[0.5, 0.5], [0, 1]]], dtype=np.float32),
        "uniform_samples": np.array([[0.5, 0.0], [0.125, 0.0]], dtype=np.float32),
    }
    paths = [Observation({"accept_index": np.array([[0, 1], [2, last]])}) for last in (-1, 3)]
    case = Case("tree_speculative_sampling_target_only", "law", arrays, *paths, "", Provenance("my_kernels", 7))
    assert draw_requests(case) == [
        "request 0: node 0 token 3 row (0.25, 0.75) coin 0.5 *\n  └── node 1 token 1 row (1, 0) coin 0 *",
        "request 1: node 0 token 3 row (0.5, 0.5) coin 0.125 *\n  └── node 1 token 1 row (0, 1) coin 0\n"
        "  accepted path [0, 1], but should be [0]",
    ]


def test_a_chain_is_drawn_with_its_rows_and_coins():
    arrays = {
        "draft_tokens": np.array([1, 0, 1]),
        "cu_num_drafts": np.array([0, 0, 3], dtype=np.int32),
        "draft_probs": np.array([[0, 1], [1, 0], [0.5, 0.5]], dtype=np.float32),
        "target_probs": np.array([[1, 0], [0.25, 0.75], [1, 0], [1, 0], [0, 1]], dtype=np.float32),
        "uniform_samples": np.array([0.5, 0.0, 0.25], dtype=np.float32),
        "uniform_samples_for_final_sampling": np.array([0.75, 0.125], dtype=np.float32),
    }
    rows = [Observation({"output_tokens": np.array([[0, -1], [1, last]])}) for last in (0, -1)]
    case = Case("chain_speculative_sampling", "law", arrays, *rows, "", Provenance("my_kernels", 7))
    assert draw_requests(case) == [
        "request 0: 0 drafts\n  then row (1, 0) coin 0.75",
        "request 1: 3 drafts\n"
        "  draft 0 token 1 proposed by (0, 1) row (0.25, 0.75) coin 0.5\n"
        "  draft 1 token 0 proposed by (1, 0) row (1, 0) coin 0\n"
        "  draft 2 token 1 proposed by (0.5, 0.5) row (1, 0) coin 0.25\n"
        "  then row (0, 1) coin 0.125\n"
        "  output [1], but should be [1, 0]",
    ]


def test_a_chain_is_drawn_with_the_choices_of_the_target():
    arrays = {
        "draft_tokens": np.array([11, 12]),
        "cu_num_drafts": np.array([0, 2], dtype=np.int32),
        "target_predict": np.array([11, 20, 13]),
    }
    rows = [Observation({"output_tokens": np.array([[11, last, -1]])}) for last in (20, 12)]
    case = Case("verify_chain_greedy", "law", arrays, *rows, "", Provenance("my_kernels", 7))
    assert draw_requests(case) == [
        "request 0: 2 drafts\n"
        "  draft 0 token 11 -> 11\n"
        "  draft 1 token 12 -> 20\n"
        "  then -> 13\n"
        "  output [11, 12], but should be [11, 20]",
    ]


def test_strides_are_reported_of_arrays_that_are_no_block():
    gapped = np.zeros((2, 7), dtype=np.int32)[:, ::2]
    assert strides_of(gapped) == "strides [7, 2] for [4, 1]"
    assert strides_of(gapped.copy()) == strides_of(np.zeros(3)) == strides_of(1) == ""
    assert in_words(gapped) == "int32 [2, 4] strides [7, 2] for [4, 1] [[0, 0, 0, 0], [0, 0, 0, 0]]"
    assert in_words([gapped[:1, :1], None]) == "2 arrays: int32 [1, 1] [[0]]; None"


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
    columns = [list(cells) for cells in zip(*table.rows, strict=True)]
    assert columns[0] == ["kv_buffers[0]", "kv_buffers[1]", "slots", "num_steps"]
    assert columns[1] == ["float64", "", "int64", ""]
    assert columns[3][0] == "[0.0, 0.0]"
    assert columns[3][2].endswith(" …") and len(columns[3][2]) < 400
    assert columns[3][3] == "3"


def test_a_case_without_links_has_no_tree_to_draw():
    case = Case("fast_topk", "law", {"k": 1}, Observation(), Observation(), "", Provenance("my_kernels", 7))
    assert draw_requests(case) == []


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
