import pytest

from specsim.simulation.models.hash_model import HashModel


@pytest.mark.parametrize(("num_right", "promises"), [(0, [-1, -1]), (1, [1 << 32, -1]), (2, [1 << 32, 1 << 32])])
def test_agreement_by_depth(num_right, promises):
    model = HashModel(num_right=num_right)
    assert [model.agreement_at(1), model.agreement_at(2)] == promises
