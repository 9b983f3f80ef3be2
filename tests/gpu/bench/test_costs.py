"""The random Llama agrees as it is dialled, shares of the rest are found, and the measuring runs to its end."""

import json

import numpy as np
import pytest
import torch

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.bench.costs import accepted_of, non_negative
from specsim.gpu.bench.llama import TOY, VOCABULARY, DialledLlama, dialled
from specsim.tuning.costs import parse_costs
from tests.tuning.measure_on_gpu import main, tokens_a_verify


def test_the_successors_are_one_cycle_through_the_vocabulary():
    successor, _ = dialled(0.7, 250, torch.device("cpu"))
    token, seen = 0, set()
    while token not in seen:
        seen.add(token)
        token = int(successor[token])
    assert len(seen) == 250


@pytest.mark.parametrize("agreement", [0.3, 0.7])
def test_the_place_of_the_successor_is_geometric(agreement):
    """A share of 128,256 tokens has a standard deviation of at most 0.0014."""
    successor, candidates = dialled(agreement, VOCABULARY, torch.device("cpu"))
    is_right = candidates == successor[:, None]
    assert int(is_right.sum(dim=1).max()) == 1
    for rank in range(3):
        assert float(is_right[:, rank].float().mean()) == pytest.approx(agreement * (1 - agreement) ** rank, abs=0.005)
    first, second = is_right[:, 0], is_right[successor, 0]
    assert float((first & second).float().mean()) == pytest.approx(agreement**2, abs=0.01), "independent along a text"


def test_shares_of_the_rest_are_found_and_none_is_negative():
    features = np.array(
        [[1, 1, 2, 1], [1, 4, 5, 4], [1, 2, 16, 8], [1, 4, 16, 16], [1, 4, 32, 32], [1, 1, 128, 64]], float
    )
    shares = np.array([1e-4, 1e-5, 1e-6, 2e-6])
    assert non_negative(features, features @ shares) == pytest.approx(shares)
    falling = non_negative(features, features @ (shares * [1, 1, 1, -1]))
    assert (falling >= 0).all() and falling[3] == 0


def test_the_worker_accepts_what_the_tables_of_the_model_say():
    """A chain of two drafts accepts the successor of each token for as long as the first candidate is it."""
    model = DialledLlama(0.6, DEVICE, target=TOY, draft=TOY, vocab_size=256, dtype="float32")
    successor, candidates = dialled(0.6, 256, torch.device("cpu"))
    is_right = (candidates[:, 0] == successor).tolist()
    ((verifies, accepted),) = accepted_of(model, SpecConfig(1, 2, 3), [[3]], 9)
    token, place, expected = int(successor[3]), 1, []
    while place < 9:
        count, last = 0, token
        while count < 2 and is_right[last]:
            count, last = count + 1, int(successor[last])
        expected.append(min(count, 9 - place))
        for _ in range(count + 1):
            token, place = int(successor[token]), place + 1
    assert (verifies, accepted) == (len(expected), sum(expected))
    assert tokens_a_verify([(2, 3), (2, 1)]) == 2


@pytest.mark.slow
def test_the_script_measures_a_toy_to_its_end(tmp_path, capsys):
    assert main(["--toy", "--save", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert len(rows) == 4 and all(row["predicted_ms"] > 0 and row["measured_ms"] > 0 for row in rows)
    costs = parse_costs((tmp_path / "costs.json").read_bytes())
    assert costs.iteration_times.draft_step.tokens == (1, 2)
    assert "4 configurations: largest error " in capsys.readouterr().out
