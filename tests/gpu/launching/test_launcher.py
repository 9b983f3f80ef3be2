"""Launches as on a GPU, with a kernel that writes down how it is started, and as they are under the interpreter."""

from dataclasses import replace

import pytest
import torch
import triton
from triton import knobs

from specsim import gpu
from specsim.gpu.arrays import DEVICE
from specsim.gpu.kernels.verify import _verify_tree_greedy_kernel
from specsim.gpu.launching import prepared
from specsim.gpu.launching.buffers import prepare
from specsim.gpu.launching.calls import launch_into
from specsim.gpu.launching.examples import SMALL, example
from specsim.gpu.launching.launcher import Launch, launch, prepare_again
from specsim.gpu.launching.mode import launching
from specsim.gpu.launching.plan import Plan
from specsim.gpu.launching.prepared import start
from specsim.operations import RECORDS


class CompiledKernel:
    """What a just-in-time compiler returns."""

    function, packed_metadata = "function", "metadata"

    def __init__(self, started):
        self.started = started

    def run(self, x, y, z, stream, function, metadata, launch_metadata, enter, leave, *arguments):
        assert (function, metadata, launch_metadata, enter, leave) == ("function", "metadata", None, None, None)
        self.started.append(((x, y, z), stream, arguments))


class Kernel:
    """A kernel: what it compiles, and how compiled kernels are started."""

    __name__ = "_kernel"

    def __init__(self, *arg_names):
        self.arg_names = list(arg_names)
        self.compiled = []
        self.started = []

    def __getitem__(self, grid):
        def compile_and_start(**arguments):
            self.compiled.append((grid, arguments))
            return CompiledKernel(self.started)

        return compile_and_start


@pytest.fixture(autouse=True)
def starts_early(monkeypatch):
    """Let kernels start early on the devices of these tests, which are not there."""
    monkeypatch.setattr(prepared, "starts_early", lambda device: True)


@pytest.fixture
def kernel():
    return Kernel("values_ptr", "mask_ptr", "sum_ptr", "num_rows", "BLOCK", "IS_LAST")


@pytest.fixture
def plan(kernel):
    return Plan(
        kernel,
        grid=(3,),
        sizes={"num_rows": 7},
        constants={"IS_LAST": True, "mask_ptr": None},
        tunables={"BLOCK": 64},
        num_warps=2,
        options={"enable_fp_fusion": False},
    )


def tensors(offset=0, dtype=torch.float32):
    values = torch.zeros(64, dtype=dtype)
    return {"values": values[offset:], "sum": torch.zeros(8, dtype=torch.int64)}


def test_the_first_launch_compiles_and_later_ones_start_what_was_compiled(kernel, plan):
    first, second = tensors(), tensors()
    start((plan,), first, 0, 99)
    start((plan,), second, 0, 99)
    (grid, arguments), *others = kernel.compiled
    assert (grid, others) == ((3,), [])
    assert list(arguments) == [*kernel.arg_names, "num_warps", "launch_pdl", "enable_fp_fusion"]
    assert arguments["values_ptr"] is first["values"]
    assert (arguments["num_warps"], arguments["launch_pdl"], arguments["enable_fp_fusion"]) == (2, True, False)
    addresses = second["values"].data_ptr(), second["sum"].data_ptr()
    assert kernel.started == [((3, 1, 1), 99, (addresses[0], None, addresses[1], 7, 64, True))]


@pytest.mark.parametrize(
    ("buffers", "device", "stream"),
    [(tensors(offset=1), 0, 0), (tensors(dtype=torch.int32), 0, 0), (tensors(), 1, 0), (tensors(), 0, 1)],
    ids=["not aligned", "another type", "another device", "another stream"],
)
def test_what_a_prepared_launch_relies_on_is_distinguished(kernel, plan, buffers, device, stream):
    start((plan,), tensors(), 0, 0)
    start((plan,), buffers, device, stream)
    assert len(kernel.compiled) == 2
    start((plan,), tensors(), 0, 0)
    assert (len(kernel.compiled), len(kernel.started)) == (2, 1)


def with_sizes(kernel, **sizes):
    constants = {"IS_LAST": True, "mask_ptr": None}
    return Plan(kernel, grid=(3,), sizes=sizes, constants=constants, tunables={"BLOCK": 64}, num_warps=2)


def test_plans_that_differ_in_sizes_alone_share_a_kernel(kernel):
    buffers = tensors()
    for num_rows in (7, 9, 7, 2**31 - 1):
        start((with_sizes(kernel, num_rows=num_rows),), buffers, 0, 99)
    assert len(kernel.compiled) == 1
    assert [arguments[3] for _, _, arguments in kernel.started] == [9, 7, 2**31 - 1]


@pytest.mark.parametrize("num_rows", [1, 16, 0, True, 2**31 + 1, 2**63 + 1, -(2**31) - 1])
def test_sizes_that_the_compiler_tells_apart_do_not(kernel, num_rows):
    for size in (7, num_rows):
        start((with_sizes(kernel, num_rows=size),), tensors(), 0, 99)
    assert (len(kernel.compiled), kernel.started) == (2, [])


@pytest.mark.parametrize(
    "changed",
    [{"tunables": {"BLOCK": 32}}, {"constants": {"IS_LAST": False, "mask_ptr": None}}, {"num_warps": 4}],
    ids=["tunable", "constant", "warps"],
)
def test_plans_that_differ_in_what_is_compiled_share_no_kernel(kernel, changed):
    plan = with_sizes(kernel, num_rows=7)
    for one in (plan, replace(plan, **changed), replace(plan, options={"enable_fp_fusion": False})):
        start((one,), tensors(), 0, 99)
    assert (len(kernel.compiled), kernel.started) == (3, [])


def test_which_buffer_is_not_aligned_matters(kernel, plan):
    values, total = torch.zeros(64), torch.zeros(8, dtype=torch.int64)
    for buffers in ({"values": values[1:], "sum": total}, {"values": values, "sum": total[1:]}):
        start((plan,), buffers, 0, 0)
    assert len(kernel.compiled) == 2


def test_alignment_of_16_bytes_is_enough(kernel, plan):
    start((plan,), tensors(), 0, 0)
    start((plan,), tensors(offset=4), 0, 0)
    assert (len(kernel.compiled), len(kernel.started)) == (1, 1)


def test_buffers_are_distinguished_by_name_not_by_order(kernel, plan):
    buffers = tensors()
    start((plan,), buffers, 0, 0)
    start((plan,), dict(reversed(buffers.items())), 0, 0)
    start((plan,), dict(reversed(buffers.items())), 0, 0)
    ((_, _, arguments),) = kernel.started
    assert arguments[0] == buffers["values"].data_ptr()


def test_a_tuple_of_buffers_becomes_a_tuple_of_addresses():
    kernel = Kernel("score_ptrs", "NUM")
    plan = Plan(kernel, grid=(1, 2), sizes={}, constants={"NUM": 2})
    scores = torch.zeros(4), torch.zeros(4)
    start((plan,), {"score": scores}, 0, 0)
    start((plan,), {"score": scores}, 0, 0)
    assert kernel.started == [((1, 2, 1), 0, (tuple(score.data_ptr() for score in scores), 2))]
    start((plan,), {"score": (*scores, scores[0])}, 0, 0)
    start((plan,), {"score": (scores[0], scores[1][1:])}, 0, 0)
    assert len(kernel.compiled) == 3


def test_plans_share_buffers_and_take_their_own():
    first, second = Kernel("left_ptr", "level"), Kernel("right_ptr", "left_ptr", "level")
    plans = tuple(
        Plan(kernel, grid=(1,), sizes={"level": level}) for level, kernel in enumerate((first, second, first))
    )
    buffers = {"left": torch.zeros(4), "right": torch.ones(4)}
    for _ in range(2):
        start(plans, buffers, 0, 0)
    left, right = (buffer.data_ptr() for buffer in buffers.values())
    assert first.started == [((1, 1, 1), 0, (left, 0)), ((1, 1, 1), 0, (left, 2))]
    assert second.started == [((1, 1, 1), 0, (right, left, 1))]


@pytest.mark.parametrize("hooks", [knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook])
def test_launches_that_a_profiler_watches_go_through_the_compiler(kernel, plan, hooks):
    def watch(metadata):
        return None

    hooks.add(watch)
    try:
        for _ in range(3):
            start((plan,), tensors(), 0, 0)
    finally:
        hooks.remove(watch)
    assert (len(kernel.compiled), kernel.started) == (3, [])
    start((plan,), tensors(), 0, 0)
    assert (len(kernel.compiled), len(kernel.started)) == (3, 1)


def test_what_is_kept_is_bounded(plan, monkeypatch):
    monkeypatch.setattr(prepared, "MOST_FORMS", 8)
    for device in range(3 * prepared.MOST_FORMS):
        start((plan,), tensors(), device, device)
    assert max(len(prepared._FORMS), len(prepared._COMPILED)) <= prepared.MOST_FORMS


def test_a_plan_names_what_its_kernel_does_not_take(kernel):
    with pytest.raises(TypeError, match="_kernel does not take, or is not given, BLOK, num_rows"):
        Plan(kernel, grid=(1,), sizes={}, constants={"IS_LAST": True, "BLOCK": 1, "BLOK": 1})


def test_buffers_come_first():
    with pytest.raises(TypeError, match="pointers of _kernel should stand before its other parameters"):
        Plan(Kernel("values_ptr", "num_rows", "sum_ptr"), grid=(1,), sizes={"num_rows": 1})


def test_a_missing_buffer_is_named(plan):
    with pytest.raises(TypeError, match="_kernel is not given sum"):
        start((plan,), {"values": torch.zeros(4)}, 0, 0)


def test_an_operation_describes_launches_and_nothing_else():
    for described in (torch.zeros(1), "_kernel", [torch.zeros(1)], iter(())):
        with pytest.raises(TypeError, match="an operation returns its launches, not"):
            launch(described)


def test_an_observer_sees_every_launch_before_it_runs():
    seen = []
    arguments = example("verify_tree_greedy", SMALL, DEVICE)
    with launching(seen.append):
        outputs = gpu.verify_tree_greedy(**arguments)
    ((observed),) = seen
    assert isinstance(observed, Launch)
    assert observed.plan.kernel is _verify_tree_greedy_kernel
    assert observed.inputs["candidates"] is arguments["candidates"]
    assert observed.outputs["predict"] is outputs.predict
    assert list(observed.arguments) == _verify_tree_greedy_kernel.arg_names
    assert gpu.verify_tree_greedy(**arguments).num_accepted_drafts.tolist() == outputs.num_accepted_drafts.tolist()
    assert len(seen) == 1


def test_an_observed_launch_starts_again():
    seen = []
    with launching(seen.append):
        outputs = gpu.verify_tree_greedy(**example("verify_tree_greedy", SMALL, DEVICE))
    outputs.num_accepted_drafts.fill_(-7)
    prepare_again(seen[0])()
    assert outputs.num_accepted_drafts.tolist() == [0]


def test_every_operation_launches_into_given_buffers():
    for name in RECORDS:
        given = prepare(name, example(name, SMALL, DEVICE))
        assert launch_into(given) is given.outputs, name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the interpreter calls kernels by name")
def test_what_was_prepared_is_what_the_compiler_starts():
    values = torch.arange(64, device=DEVICE, dtype=torch.float32).flip(0).view(2, 32)
    expected = gpu.fast_topk(values, 3)
    for _ in range(3):
        assert all(torch.equal(one, other) for one, other in zip(gpu.fast_topk(values, 3), expected, strict=True))
    shifted = torch.zeros(65, device=DEVICE)[1:].view(2, 32).copy_(values)
    assert all(torch.equal(one, other) for one, other in zip(gpu.fast_topk(shifted, 3), expected, strict=True))


def test_launching_without_running_does_nothing():
    outputs = torch.full((2,), 5)
    plan = Plan(Kernel("values_ptr"), grid=(1,), sizes={})
    with launching(runs=False):
        launch(Launch(plan, inputs={}, outputs={"values": outputs}))
    assert outputs.tolist() == [5, 5]
    assert triton.knobs.runtime.launch_enter_hook.calls == []
