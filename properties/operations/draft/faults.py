"""Faults in choosing, pruning and naming the candidates of a draft."""

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Named, mutants_by_operation, returning, with_arguments, with_outputs

_CHOSEN = "best_first(values[row])[:k]"
_TIES_TO_THE_RIGHT = "values.shape[1] - 1 - best_first(values[row, ::-1])[:k]"


def _candidates_child_first(outputs: Named, arguments: Named) -> None:
    num_requests, branch, topk = outputs["score_block"].shape
    tokens = outputs["token_block"].reshape(num_requests, branch, topk)
    outputs["token_block"] = tokens.transpose(0, 2, 1).reshape(num_requests, branch * topk)


def _parents_without_the_marker(outputs: Named, arguments: Named) -> None:
    parents = np.concatenate(arguments["parents_list"], axis=1)
    outputs["parent_list"] = parents[:, 1 : 1 + outputs["parent_list"].shape[1]].copy()


_first_of_its_value = edited(_CHOSEN, "[values[row].tolist().index(value) for value in -np.sort(-values[row])[:k]]")
_another_stride = with_arguments(values=lambda values: np.resize(values, (len(values), values.shape[1] + 1))[:, :-1])
_negative_zero_below_zero = edited(
    '(-scores).argsort(kind="stable")', "np.lexsort((np.signbit(scores), -scores))", within="best_first"
)
_any_numbers = edited('check_call("fast_topk", locals())', '{"k": k, "row": len(values)}')
_scores_add = edited("scores[request, beam] * probabilities", "scores[request, beam] + probabilities")
_scores_of_the_first = edited("scores[request, beam] * probabilities", "scores[0, beam] * probabilities")
_hidden_state_of_the_place = edited("candidate // topk", "place % branch")
_rows_of_other_requests = edited(
    "hidden_states[parent_row]", "hidden_states[parent_row if step_index else (request * topk + place) % num_requests]"
)
_ids_of_the_step_after = edited("topk + topk * topk * (step_index - 1)", "topk + topk * topk * step_index")
_ties_to_the_child = edited("best_first(scores)", "len(scores) - 1 - best_first(scores[::-1])")
_ordered_by_score = edited("np.sort(best_first(scores)[:num_kept])", "best_first(scores)[:num_kept]")
_ids_as_offsets = edited(
    "hot_token_id[topk_index[row, column]]", "(topk_index + hot_token_id[topk_index])[row, column]"
)
_path_so_far_dropped = edited("scores[request, beam] * probabilities", "probabilities")
_tokens_of_the_places = edited("token_block[request, candidate]", "token_block[request, place]")
_kept_of_the_first_request = edited("block[request].reshape(-1)", "block[0].reshape(-1)")
_counted_from_one = with_outputs(top_scores_index=lambda index: index + 1)

MUTANTS = mutants_by_operation(
    fast_topk=(
        ("OWN-01", "Equal values are taken from the right.", edited(_CHOSEN, _TIES_TO_THE_RIGHT)),
        ("OWN-02", "The chosen entries stay in column order.", edited(_CHOSEN, f"np.sort({_CHOSEN})")),
        ("OWN-03", "Indices are looked up by value, so equal values share one.", _first_of_its_value),
        ("OWN-04", "Only the first tile of a row is searched.", edited("values[row]", "values[row, : max(k, 4)]")),
        ("G11", "Rows have the stride of another vocabulary.", _another_stride),
        ("OWN-124", "Negative zero ranks below zero.", _negative_zero_below_zero),
        ("OWN-05", "NaN scores are taken for numbers.", _any_numbers),
    ),
    select_top_k_tokens=(
        ("OWN-06", "Probabilities along a path are added.", _scores_add),
        ("OWN-07", "The score of the path so far is dropped.", _path_so_far_dropped),
        ("OWN-08", "Scores are those of the first request.", _scores_of_the_first),
        ("OWN-09", "A beam keeps the hidden state of its place, not of its parent.", _hidden_state_of_the_place),
        ("D07", "Rows of one request are read where one row a beam is laid out.", _rows_of_other_requests),
        ("OWN-10", "Flat ids are those of the step after.", _ids_of_the_step_after),
        ("OWN-11", "Flat ids count within the step.", edited("first_id + candidate", "candidate")),
        ("OWN-12", "Tokens are those of the first candidates.", _tokens_of_the_places),
        ("OWN-13", "Candidates are listed child first.", returning(_candidates_child_first)),
        ("OWN-14", "Equal scores go to the later beam.", edited(_CHOSEN, _TIES_TO_THE_RIGHT, within="fast_topk")),
    ),
    organize_draft_results=(
        ("SYN4", "Ties at the boundary keep a child and drop its parent.", _ties_to_the_child),
        ("OWN-15", "Kept candidates are ordered by score.", _ordered_by_score),
        ("OWN-16", "Tokens are not gathered.", edited("tokens[top_scores_index[request]]", "tokens[:num_kept]")),
        ("OWN-17", "Every request keeps the candidates of the first.", _kept_of_the_first_request),
        ("OWN-18", "The parent list lacks the marker of the root's children.", returning(_parents_without_the_marker)),
    ),
    organize_chain_draft_results=(
        ("OWN-19", "The chain's parent list lacks the marker.", with_outputs(parent_list=lambda parents: parents + 1)),
        ("OWN-20", "The chain's candidates are counted from 1.", _counted_from_one),
    ),
    map_hot_tokens=(
        ("D04", "The table's ids are added as if they were offsets.", _ids_as_offsets),
        ("G15", "No row counts as live, and -1 wraps to the last entry.", edited("topk_index[row, column]", "-1")),
        ("OWN-21", "Every row is mapped like the first.", edited("topk_index[row, column]", "topk_index[0, column]")),
    ),
)
