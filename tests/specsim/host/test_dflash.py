import pytest

from specsim import Reason, SpecRejection
from specsim.host.dflash import target_feature_layers


@pytest.mark.parametrize(
    ("num_target_layers", "num_features", "expected"),
    [(36, 1, (18,)), (1, 1, (0,)), (36, 5, (1, 9, 17, 25, 33)), (4, 2, (1, 1)), (9, 3, (1, 4, 6)), (7, 3, (1, 2, 4))],
)
def test_features_are_spread_between_the_ends(num_target_layers, num_features, expected):
    assert target_feature_layers(num_target_layers, num_features) == expected


@pytest.mark.parametrize(
    ("num_target_layers", "num_features", "what"), [(8, 0, "num_features"), (3, 2, "num_target_layers")]
)
def test_no_layers_to_read_are_refused(num_target_layers, num_features, what):
    with pytest.raises(SpecRejection) as caught:
        target_feature_layers(num_target_layers, num_features)
    assert (caught.value.reason, caught.value.what) == (Reason.SCALAR_OUT_OF_RANGE, what)
