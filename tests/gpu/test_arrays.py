"""What is handed to kernels: tensors that are laid out as the arrays, on the device."""

import numpy as np
import pytest
import torch

from specsim.gpu.arrays import DEVICE, from_numpy


@pytest.mark.parametrize("shape", [(0,), (1, 0), (0, 3), (2, 0, 4)])
def test_what_is_empty_has_the_strides_that_torch_gives_it(shape):
    tensor = from_numpy(np.zeros(shape, dtype=np.int64))
    assert (tensor.shape, tensor.stride()) == (shape, torch.empty(shape).stride())
    assert (tensor.dtype, tensor.device.type) == (torch.int64, DEVICE.type)


def test_a_strided_view_stays_one():
    assert from_numpy(np.arange(12).reshape(3, 4)[:, ::2]).stride() == (4, 2)
