"""A command over a pipe is called like a module, and everything that it does wrong is said in one line."""

import os
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from specsim.conformance.backend import BackendUnavailable, load
from specsim.conformance.isolation.heartbeat import Heart, Poisoned, listen
from specsim.conformance.limits import BadLimits
from specsim.conformance.outcomes import observe
from specsim.conformance.piping.command import BadCommand, Pipe
from specsim.operations import RECORDS
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.hunt.cases import draw_cases
from specsim.rejection import Reason, SpecRejection

HERE = Path(__file__).parent
CALL = {"accept_tokens": np.array([[5, 6], [7, 8]], np.int32), "num_accepted_tokens": np.array([1, 2], np.int32)}
FILL = RECORDS["fill_bonus_tokens"]


def toy(how=""):
    return shlex.join([sys.executable, "-I", "-S", str(HERE / "toy.py"), how])


@pytest.fixture
def begun():
    """Return a function that starts a toy, which ends with the test."""
    pipes = []

    def begin(how="", **options):
        pipes.append(Pipe(toy(how), **options))
        return pipes[-1], pipes[-1].start()

    yield begin
    for pipe in pipes:
        pipe.close()


def test_a_command_is_a_namespace_like_a_module():
    backend = load(f"command:{toy()}")
    assert (list(backend.functions), backend.rejects) == (["fill_bonus_tokens"], False)
    assert backend.fill_bonus_tokens(**CALL).tolist() == [5, 8]
    assert vars(sys.modules[backend.name])["VERSION"] == "1.2"


def test_what_a_command_declares_is_read_as_of_a_module():
    backend = load(f"command:{toy('hello-limited')}")
    assert (backend.rejects, backend.limits.of("fill_bonus_tokens")) == (True, {"request": range(1, 3)})


def is_special(operation):
    """Return whether calls of an operation have lists, absent arguments, other types, or arguments that are written."""
    arrays = RECORDS[operation].contract.arrays
    is_odd = any(spec.each or spec.optional or spec.dtype not in ("int32", "int64", "float32") for spec in arrays)
    return is_odd or bool(RECORDS[operation].contract.writes)


def test_operations_cross_the_pipe_unchanged():
    """Lists, absent arguments, what is written in place and every element type: the outputs are the reference's."""
    backend = load(f"command:{shlex.join([sys.executable, str(HERE / 'serving.py')])}")
    reference = load("specsim.reference")
    for place, operation in enumerate(one for number, one in enumerate(RECORDS) if is_special(one) or number % 4 == 0):
        for case in draw_cases(property_named(f"agreement.{operation}"), 1, 2):
            expected, got = reference.run(operation, case), backend.run(operation, case)
            np.testing.assert_equal(got.outputs, expected.outputs)
            assert str(_forms(got)) == str(_forms(expected))
        for case in () if place % 8 else draw_cases(property_named(f"rejection.{operation}"), 1, 2):
            assert observe(backend, operation, case).rejection == observe(reference, operation, case).rejection


def _forms(outcome):
    values = outcome.outputs.values()
    return [
        [(one.dtype, one.shape) for one in (value if isinstance(value, list) else [value]) if one is not None]
        for value in values
    ]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("./no-such-program", "./no-such-program cannot be started: No such file or directory"),
        (str(HERE), f"{HERE} cannot be started: Permission denied"),
        ("true", "true cannot be started: left with exit code 0"),
        ("sh -c 'echo no libcudart.so >&2; exit 3'", "left with exit code 3; its stderr ends: no libcudart.so"),
    ],
)
def test_what_is_not_there_is_unavailable(command, expected):
    with pytest.raises(BackendUnavailable) as raised:
        load(f"command:{command}")
    assert str(raised.value).endswith(expected)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("", "--command is empty, but should name a program"),
        ("engine 'half", """--command "engine 'half" is no command line: No closing quotation"""),
        ("echo hello", "echo hello left with exit code 0 after half a frame, 6 of 8 bytes"),
        (
            "sh -c 'echo loading weights; sleep 9'",
            "sh -c 'echo loading weights; sleep 9' wrote no frame, b'loading weights\\n': its header would have "
            "1,684,107,116 bytes, but should have at most 1,048,576",
        ),
        (
            "cat",
            'cat wrote b\'{"id": 0, "hello": "specsim.pipe/1"}\', which is no answer: '
            "Object missing required field `operations`",
        ),
        (toy("hello-more"), "toy.py hello-more wrote 6 bytes more than its answer, b'ready\\n'"),
        (toy("hello-protocol"), "toy.py hello-protocol wrote hello 'specsim.pipe/2', but should write specsim.pipe/1"),
        (toy("hello-field"), "which is no answer: Object contains unknown field `operation`"),
        (
            toy("hello-unknown"),
            "wrote operations with 'fill_bonus_token', but should write names of the table; "
            "did you mean fill_bonus_tokens?",
        ),
        (toy("hello-rejects"), "wrote declares.REJECTS 1, but should write true or false"),
    ],
)
def test_garbage_half_a_frame_and_too_much_are_refused_at_the_start(command, expected):
    with pytest.raises(BadCommand) as raised:
        load(f"command:{command}")
    assert str(raised.value).endswith(expected)


def test_what_only_a_module_declares_is_refused(begun):
    with pytest.raises(
        BadCommand, match="wrote declares with 'WORKER', but should write one of REJECTS, MAX_SAMPLES, LIM"
    ):
        begun("hello-declares")
    with pytest.raises(BadLimits, match="is no axis or scalar: fill_bonus_tokens has request, draft"):
        load(f"command:{toy('hello-limits')}")


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        (
            "garbage",
            RuntimeError,
            "the command wrote no frame, b'CUDA error: out of memory\\n': its header would have 1,094,997,315",
        ),
        ("more", RuntimeError, "the command wrote 7 bytes more than its answer, b'[debug]'"),
        ("id", RuntimeError, "the command wrote the answer to frame 3, but should answer frame 2"),
        ("body", RuntimeError, "the command wrote a body that is no safetensors file: "),
        ("fields", RuntimeError, """the command wrote b'{"id": 2, "answer": 1}', which is no answer: """),
        ("error", RuntimeError, "no kernel for this shape"),
        (
            "reason",
            RuntimeError,
            "the command refuses the call for 'NODE_OUT_OF_RANG', but should give a reason of ours; "
            "did you mean NODE_OUT_OF_RANGE?",
        ),
        ("name", AssertionError, "fill_bonus_tokens returned bonus_token, but should return bonus_tokens"),
        ("abort", RuntimeError, "the command: killed by SIGABRT; its stderr ends: call 2 / what it does last"),
        ("exit", RuntimeError, "the command: left with exit code 7; its stderr ends: call 2 / what it does last"),
    ],
)
def test_a_call_that_goes_wrong_says_how(begun, how, error, message):
    _, functions = begun(how)
    with pytest.raises(error) as raised:
        functions["fill_bonus_tokens"](**CALL)
    assert str(raised.value).startswith(message)


def test_a_command_that_wrote_garbage_is_started_again(begun):
    _, functions = begun("garbage")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the command wrote no frame"):
            functions["fill_bonus_tokens"](**CALL)


def test_half_a_frame_is_not_waited_for(begun):
    _, functions = begun("half", seconds_halfway=0.1)
    with pytest.raises(
        RuntimeError, match=r"the command: wrote half a frame, 20 of \d+ bytes, and then nothing for 0.1 s"
    ):
        functions["fill_bonus_tokens"](**CALL)


def test_half_a_frame_at_the_start_is_refused():
    command = "sh -c 'printf abc; exec sleep 30'"
    with pytest.raises(BadCommand) as raised:
        Pipe(command, seconds_halfway=0.1).start()
    assert str(raised.value) == f"{command} wrote half a frame, 3 of 8 bytes, and then nothing for 0.1 seconds"


def test_a_rejection_has_its_reason_and_its_words(begun):
    _, functions = begun("rejection")
    with pytest.raises(SpecRejection) as raised:
        functions["fill_bonus_tokens"](**CALL)
    assert raised.value.reason is Reason.NODE_OUT_OF_RANGE
    assert str(raised.value).endswith(
        "call of fill_bonus_tokens is refused, but should be within the domain, because it has 3 nodes"
    )


def test_who_watches_a_process_learns_that_its_command_has_ended(begun):
    _, functions = begun("abort")
    heart = Heart.new()
    listen(heart)
    try:
        with pytest.raises(
            Poisoned, match="the command: killed by SIGABRT; its stderr ends: call 2 / what it does last"
        ):
            functions["fill_bonus_tokens"](**CALL)
    finally:
        listen(None)
        heart.close()


def test_a_fork_has_a_command_of_its_own(begun):
    _, functions = begun()
    process = os.fork()
    if not process:
        os._exit(functions["fill_bonus_tokens"](**CALL).tolist() != [5, 8])
    assert os.waitpid(process, 0)[1] == 0
    assert functions["fill_bonus_tokens"](**CALL).tolist() == [5, 8]


def test_what_the_command_prints_is_passed_on(begun, capsys):
    _, functions = begun()
    for _ in range(3):
        functions["fill_bonus_tokens"](**CALL)
    assert capsys.readouterr().err.split("\n")[:2] == ["call 2", "call 3"]


def test_neither_side_waits_for_the_other_where_all_of_it_is_large(begun, capsys):
    """Call, answer and stderr are each longer than the memory of a pipe."""
    _, functions = begun("flood")
    tokens, counts = np.arange(200_000, dtype=np.int32).reshape(-1, 4), np.full(50_000, 2, np.int32)
    got = functions["fill_bonus_tokens"](accept_tokens=tokens, num_accepted_tokens=counts)
    np.testing.assert_array_equal(got, tokens[:, 1])
    assert len(capsys.readouterr().err) > 1 << 16
