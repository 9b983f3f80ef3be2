import numpy as np

from specsim.host.choice import TokenChoice
from specsim.host.sampling import SamplingParameters
from specsim.reference.worker.choices import ChoiceRows


def test_parameters_are_kept_by_row():
    rows = ChoiceRows(4)
    rows.assign([3, 1], [TokenChoice(SamplingParameters(0.5, 7, 0.9, 0.1, 0.8, 0.7, 11)), TokenChoice()])
    assert rows.is_greedy(np.array([1, 3])).tolist() == [True, False]
    assert rows.has_sampled(np.array([1, 3]))
    assert not rows.has_sampled(np.array([1, 2]))
    assert not rows.has_sampled(np.array([], dtype=np.int64))
    assert rows.seeds(np.array([3])).tolist() == [11]
    got = rows.parameters(np.array([3]))
    assert {name: (value.dtype.name, value.item()) for name, value in got.items()} == {
        "temperature": ("float32", 0.5),
        "top_k": ("int32", 7),
        "top_p": ("float32", np.float32(0.9)),
        "min_p": ("float32", np.float32(0.1)),
        "threshold_single": ("float32", np.float32(0.8)),
        "threshold_acc": ("float32", np.float32(0.7)),
    }


def test_a_row_that_is_assigned_again_is_greedy():
    rows = ChoiceRows(2)
    rows.assign([1], [TokenChoice(SamplingParameters())])
    rows.assign([1], [TokenChoice()])
    assert rows.is_greedy(np.array([1])).tolist() == [True]
