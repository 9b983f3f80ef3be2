"""A transformer whose attention is the operation decodes without loss in one graph an iteration, on pages too."""

from dataclasses import replace

import pytest
import torch

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.simulation.models.description import DraftSource
from tests.gpu.worker.transformer_runs import compare, logits_of, plainly, play, requests
from tests.specsim.simulation.models.examples import my_transformer

TREE = SpecConfig(2, 2, 5)
SMALL = my_transformer.Sizes(32, 32, 2, 1, 1, 1, dtype="float32")


def small(source=DraftSource.HIDDEN):
    """Return a transformer of one layer with heads of 16 numbers."""
    return my_transformer.Transformer(SMALL, 7, DEVICE, source, attend=my_transformer.attend_in_kernels)


@pytest.mark.parametrize(
    ("source", "page_size"), [(DraftSource.HIDDEN, 16), (DraftSource.TOKENS, 1)], ids=["HIDDEN-16", "TOKENS-1"]
)
def test_it_decodes_without_loss_in_one_graph_an_iteration(source, page_size):
    model, asked = small(source), requests(3, 32, 24, 4)
    played = play(model, TREE, asked, 2, page_size)
    found = compare(model, played.finished)
    assert found.is_lossless
    assert (found.tokens, found.others) == (sum(one.max_new_tokens for one in asked), 0)
    assert {size for size, _ in played.iterations} == {1, 2}
    assert {replays for _, replays in played.iterations} == {1}
    assert played.accepted_per_verify > 0
    played.worker.launch([])
    assert played.worker.phases()[2].num_requests == 0


def every_node_sees_every_node(trees):
    """Return trees whose masks hide nothing."""
    return replace(trees, mask=torch.ones_like(trees.mask))


def nodes_see_their_descendants(trees):
    """Return trees whose masks are turned round."""
    return replace(trees, mask=trees.mask.view(-1, trees.num_nodes, trees.num_nodes).mT.reshape(-1))


def a_key_less(trees):
    """Return trees that miss their last key."""
    return replace(trees, lengths=trees.lengths - 1)


def pages_of_the_neighbour(trees):
    """Return trees with the pages of the next ones."""
    return replace(trees, page_table=trees.page_table.roll(1, 0))


def pages_as_slots(trees):
    """Return trees whose page table is read as if it had slots."""
    return replace(trees, page_size=1)


@pytest.mark.parametrize(
    "fault",
    [every_node_sees_every_node, nodes_see_their_descendants, a_key_less, pages_of_the_neighbour, pages_as_slots],
    ids=lambda one: one.__name__,
)
def test_a_fault_in_what_the_operation_is_given_loses_tokens(fault):
    model, asked = small(), requests(2, 32, 24, 4)
    attend = model.attend

    def faulty(query, keys, values, trees):
        return attend(query, keys, values, fault(trees) if trees.num_nodes == TREE.num_draft_tokens else trees)

    model.attend = faulty
    found = compare(model, play(model, TREE, asked, 2, 16, use_graphs=False).finished)
    assert not found.is_lossless, found


def test_a_comparison_counts_ties_and_finds_what_rounding_does_not_explain():
    """Of two tokens with one column either may be chosen; of others only what is best."""
    model, request = small(), requests(1, 32, 24, 3)[0]
    logits = logits_of(plainly(model), request.prompt)[-1]
    best, second = logits.topk(2).indices.tolist()
    model.head[:, second] = model.head[:, best]
    highest = max(best, second)
    tied = compare(model, [replace(request, output=[highest])])
    assert tied[:4] == (1, 1, 1, 0)
    assert (tied.largest, tied.is_lossless) == (0, True)
    worst = int(logits.argmin())
    wrong = compare(model, [replace(request, output=[worst])])
    assert wrong[:4] == (1, 1, 0, 0)
    assert wrong.largest == pytest.approx(float(logits[best] - logits[worst]), abs=1e-4)
    assert not wrong.is_lossless
