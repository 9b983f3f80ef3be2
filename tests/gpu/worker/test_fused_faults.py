"""Whole runs beside the reference see what is wrong in a launch that stands for several operations."""

import pytest
import torch

from specsim.config import SpecConfig
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.worker import carried, fused, fused_drafts, pools, stages
from specsim.gpu.worker.v2 import GpuWorker
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request

TREE, MODEL = SpecConfig(2, 3, 6), HashModel(32, 3, 0.8)
ASKED = [Request(0, [5, 7, 3], 12), Request(1, [9, 1], 16), Request(2, [4, 4, 8, 2], 5)]


def changing(name, change):
    """Return a launch whose output of a name is another one."""
    launch = {**vars(fused), **vars(fused_drafts)}[name]

    def faulty(*arguments):
        outputs = launch(*arguments)
        return outputs._replace(**change(outputs))

    return faulty


def keeping_no_lengths(rows, fields, entries):
    """Keep the first tokens and candidates, and leave the lengths as they were."""
    fused.scatter_rows(rows, fields[1:], entries[1:])


def reading_the_next_row(rows, fields, entries):
    """Read the rows of other requests."""
    fused.gather_rows(rows.roll(1), fields, entries)


def choosing_by_the_last_step(step_index, values, hot, hidden, scores, topk):
    """Rank candidates by what the step says of them alone."""
    return CHOOSE(step_index, values, hot, hidden, torch.ones_like(scores), topk)


CHOOSE = fused_drafts.choose_beams
FAULTS = {
    "lengths are not kept": (carried, "scatter_rows", keeping_no_lengths, "seq_lens"),
    "rows of others": (carried, "gather_rows", reading_the_next_row, "seq_lens"),
    "a count without the bonus token": (
        stages,
        "finish_paths",
        changing("finish_paths", lambda one: {"num_accepted_tokens": (one.num_accepted_tokens - 1).clamp(min=1)}),
        "num_accepted_tokens",
    ),
    "bonus tokens of others": (
        stages,
        "finish_paths",
        changing("finish_paths", lambda one: {"bonus_tokens": one.bonus_tokens.roll(1)}),
        "bonus_tokens",
    ),
    "moved the other way": (
        stages,
        "finish_paths",
        changing("finish_paths", lambda one: {"source_slots": one.target_slots, "target_slots": one.source_slots}),
        "target_predict",
    ),
    "the row before proposes": (
        fused,
        "compact_paths",
        changing("compact_paths", lambda one: {"select_index": (one.select_index - 1).clamp(min=0)}),
        "select_index",
    ),
    "ids as they lay": (
        fused,
        "compact_paths",
        changing("compact_paths", lambda one: {"input_ids": one.input_ids.flip(0)}),
        "input_ids",
    ),
    "lengths before the verify": (
        fused,
        "compact_paths",
        changing("compact_paths", lambda one: {"committed_lens": one.committed_lens - 1}),
        "seq_lens",
    ),
    "beams stand a place later": (
        pools,
        "lay_out_beams",
        changing("lay_out_beams", lambda one: {"positions": one.positions + 1}),
        "draft_token",
    ),
    "every step writes the first one's slots": (
        pools,
        "lay_out_beams",
        changing("lay_out_beams", lambda one: {"step_cache_loc": one.step_cache_loc[:1].expand(3, -1).contiguous()}),
        "draft_token",
    ),
    "keys of the next step": (
        pools,
        "lay_out_beams",
        changing("lay_out_beams", lambda one: {"kv_indices": one.kv_indices.roll(1, 0)}),
        "draft_token",
    ),
    "slots of the node before": (
        pools,
        "lay_out_nodes",
        changing("lay_out_nodes", lambda one: {"out_cache_loc": one.out_cache_loc.roll(1)}),
        "out_cache_loc",
    ),
    "pages in reverse": (
        pools,
        "lay_out_nodes",
        changing("lay_out_nodes", lambda one: {"page_table": one.page_table.flip(1)}),
        "target_predict",
    ),
    "scores of one step": (fused_drafts, "choose_beams", choosing_by_the_last_step, "draft_token"),
    "links of the node before": (
        fused_drafts,
        "plant_trees",
        changing("plant_trees", lambda one: {"retrieve_next_token": one.retrieve_next_token.roll(1, 1)}),
        "retrieve_next_token",
    ),
}


def divergence():
    """Return where a worker of this layer leaves the reference, in words."""
    sizes = sizes_for(TREE, ASKED, 3)
    believed, own = (
        ReferenceWorker(TREE, load_model(MODEL), sizes),
        GpuWorker(TREE, load_on_device(MODEL), sizes, use_graphs=False),
    )
    return find_divergence(believed, own, [one.fresh() for one in ASKED], max_batch=3)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault, monkeypatch):
    place, name, planted, message = FAULTS[fault]
    monkeypatch.setattr(place, name, planted)
    found = divergence()
    assert found is not None
    assert message in str(found)


def test_nothing_is_seen_without_a_fault():
    assert divergence() is None
