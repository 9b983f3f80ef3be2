import numpy as np
import pytest

from specsim.host.ranks import broadcast_decision
from specsim.properties.host.ranks.local_ranks import run_threads


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.bool_])
def test_every_rank_has_what_the_first_one_says(dtype):
    def run(group):
        own = np.array([[group.rank, 1], [0, 1 - group.rank % 2]], dtype=dtype)
        return broadcast_decision("accepted drafts", own, group)

    outcomes, lost = run_threads(3, run)
    assert not lost
    for decided in outcomes:
        assert decided.dtype == dtype and decided.tolist() == np.array([[0, 1], [0, 1]], dtype=dtype).tolist()


def test_the_next_rank_says_where_the_first_is_lost():
    def run(group):
        return (
            None if group.rank == 0 else broadcast_decision("bonus tokens", np.array([group.rank * 7]), group).tolist()
        )

    outcomes, lost = run_threads(3, run)
    assert outcomes == [None, [7], [7]]
    assert [one.rank for one in lost] == [0]
