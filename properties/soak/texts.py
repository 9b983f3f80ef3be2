"""What an output has to be: plain decoding of the same prompt under the same rules, and as much of it as was let be."""

from dataclasses import dataclass

from specsim.assertion import require
from specsim.host.choice import TokenChoice
from specsim.host.stopping import Finish, FinishReason, StopRules, find_stop
from specsim.host.truncation import end_of_grammar
from specsim.properties.soak.alone import run_alone
from specsim.properties.soak.setups import Setup
from specsim.simulation.autoregressive import ExactDecoder, decode_alone
from specsim.simulation.models.ground_truth import Prefix
from specsim.simulation.requests import TOKEN_TEXT, Request


@dataclass(frozen=True)
class Watch:
    """A request of a machine, and what was done to it.

    ``was_aborted`` says that somebody asked it to end.
    """

    request: Request
    was_aborted: bool = False


def check_output(setup: Setup, watch: Watch) -> None:
    """Raise AssertionError unless a request that has ended output what it had to, and ended where it had to.

    An aborted one may have more than its rules let it have, but nothing else.
    """
    request = watch.request
    what = f"output of request {request.request_id}"
    is_aborted = request.finish_reason is FinishReason.ABORT
    if is_aborted:
        require(watch.was_aborted, f"finish of request {request.request_id}", "aborted", "decoded to its end")
    if request.is_greedy:
        rules = StopRules(max(len(request.output), 1)) if is_aborted else request.fresh().rules
        output, finish = _decoded_plainly(setup, request, rules)
    elif setup.candidates or request.num_retractions:
        # NOTE: the coins of an output depend on where its verifies began, which only an undisturbed run repeats.
        _check_end(request)
        return
    else:
        output, finish = _decoded_alone(setup, request)
    if is_aborted:
        common = min(len(output), len(request.output))
        require(request.output[:common] == output[:common], what, request.output, output)
        return
    require(request.output == output, what, request.output, output)
    require(request.finish == finish, f"finish of request {request.request_id}", request.finish, finish)


def _decoded_plainly(setup: Setup, request: Request, rules: StopRules) -> tuple[list[int], Finish | None]:
    matcher = None if request.grammar is None else request.grammar()
    decoder = ExactDecoder(Prefix(setup.model), TokenChoice(None, request.processor, matcher))
    return decode_alone(decoder, request.prompt, rules, matcher)


def _decoded_alone(setup: Setup, request: Request) -> tuple[list[int], Finish | None]:
    """Return what the reference outputs with the same coins and nobody beside."""
    alone = run_alone(setup, request).request
    return alone.output, alone.finish


def _check_end(request: Request) -> None:
    """Raise AssertionError unless a sampled output ends at the first token that ends it."""
    if request.finish_reason is FinishReason.ABORT:
        return
    fresh = request.fresh()
    matcher = None if fresh.grammar is None else fresh.grammar()
    output: list[int] = []
    found: Finish | None = None
    for token in request.output:
        require(found is None, f"end of request {request.request_id}", request.finish, found)
        found = find_stop(fresh.rules, output, [token], len(fresh.prompt), TOKEN_TEXT)
        if matcher is not None:
            found = end_of_grammar(matcher, output, [token], found, TOKEN_TEXT)
        output.append(token)
    require(found == request.finish, f"end of request {request.request_id}", request.finish, found)
