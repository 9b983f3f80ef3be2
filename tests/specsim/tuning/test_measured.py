"""What was measured on an H200 by ``tests/tuning/measure_on_gpu.py``, beside what its file of costs predicts."""

import json
from pathlib import Path

import pytest

from specsim.config import SpecConfig
from specsim.tuning.costs import Shape, parse_costs
from specsim.tuning.counted import Cell, RequestCounts
from specsim.tuning.tune import rank
from tests.tuning.measure_on_gpu import LENGTH, MOST_ERROR, MOST_LOSS

ROOT = Path(__file__).parents[3]
COSTS = parse_costs((ROOT / "docs" / "examples" / "costs.json").read_bytes())
ROWS = json.loads((ROOT / "tests" / "tuning" / "measured_on_h200.json").read_text())


def cell_of(row):
    """Return a configuration that accepts what the prompts to choose by accepted."""
    topk, steps, nodes = row["config"]
    counts = tuple(RequestCounts(str(place), 100.0, 100 * (row["chosen_by"] - 1)) for place in range(4))
    return Cell("STANDALONE", topk, steps, nodes, step_forwards=steps - 1, extend_forwards=1, requests=counts)


def test_whole_iterations_take_what_the_costs_predict():
    assert len(ROWS) == 24
    for row in ROWS:
        predicted = COSTS.iteration_times.iteration(Shape.of(SpecConfig(*row["config"])), row["batch"], LENGTH)
        assert abs(predicted * 1e3 / row["measured_ms"] - 1) <= MOST_ERROR, row


@pytest.mark.parametrize("batch", [1, 8, 64])
def test_what_is_picked_is_nearly_the_best_one_measured(batch):
    rows = [row for row in ROWS if row["batch"] == batch]
    best, *_ = rank([cell_of(row) for row in rows], COSTS, COSTS.iteration_times, batch, LENGTH, 0)
    speeds = {tuple(row["config"]): row["tokens_per_verify"] / row["measured_ms"] for row in rows}
    picked = (best.cell.topk, best.cell.steps, best.cell.draft_tokens)
    assert speeds[picked] >= (1 - MOST_LOSS) * max(speeds.values())
