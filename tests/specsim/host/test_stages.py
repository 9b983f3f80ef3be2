import pytest

from specsim.host.stages import LaunchedRow, PipelineStage, RequestKey
from specsim.rejection import Reason, SpecRejection

FIRST, SECOND = RequestKey(0, 3, 1), RequestKey(5, 3, 2)


@pytest.mark.parametrize(
    ("method", "argument"),
    [
        ("leave", SECOND),
        ("is_ready", SECOND),
        ("state", SECOND),
        ("launch", [LaunchedRow(SECOND, 2)]),
        ("join", SECOND),
        ("state", RequestKey(0, 4, 1)),
    ],
)
def test_what_is_said_of_another_owner_of_a_row_is_refused(method, argument):
    stage = PipelineStage(0, 2)
    stage.join(FIRST)
    before = stage.state(FIRST)
    with pytest.raises(SpecRejection) as refusal:
        getattr(stage, method)(argument)
    assert refusal.value.reason is Reason.WRONG_PHASE
    assert stage.state(FIRST) == before


def test_a_launch_that_names_a_stranger_counts_nothing():
    stage = PipelineStage(0, 2)
    stage.join(FIRST)
    with pytest.raises(SpecRejection):
        stage.launch([LaunchedRow(FIRST, 2), LaunchedRow(SECOND, 2)])
    assert stage.is_ready(FIRST) and stage.state(FIRST).seq_len == 0


def test_an_owner_that_has_left_leaves_nothing():
    stage = PipelineStage(0, 2)
    stage.join(FIRST)
    stage.launch([LaunchedRow(FIRST, 4)])
    stage.leave(FIRST)
    stage.join(SECOND)
    assert stage.is_ready(SECOND) and stage.state(SECOND).seq_len == stage.state(SECOND).num_placeholders == 0
