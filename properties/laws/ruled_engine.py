"""Laws of whole runs with rules: the output is that of plain decoding under the same ones, whatever happens between."""

from specsim.conformance.backend import Backend
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.ruled_runs import RuledRun, handed_on_runs, ruled_runs
from specsim.simulation.autoregressive import ExactDecoder, decode_alone
from specsim.simulation.models.ground_truth import Prefix

_CALLED = ("apply_penalties", "commit_output_tokens", "forbid_tokens", "prepare_logits")


def ruled_output_is_that_of_plain_decoding(backend: Backend, run: RuledRun) -> None:
    """Each request outputs what its model chooses token by token when its rules are evaluated on the output so far."""
    for request in run.play(backend).scheduler.finished:
        decoder = ExactDecoder(Prefix(run.scenario.model), request.choice_alone())
        output, finish = decode_alone(decoder, request.prompt, request.rules)
        require(request.output == output, f"output of request {request.request_id}", request.output, output)
        require(request.finish == finish, f"finish of request {request.request_id}", request.finish, finish)


def rows_are_handed_on_without_what_they_knew(backend: Backend, run: RuledRun) -> None:
    """The same where rows have many owners, and results of the last one come when the next one is there."""
    ruled_output_is_that_of_plain_decoding(backend, run)


PROPERTIES = (
    state_of_runs("ruled_engine", ruled_output_is_that_of_plain_decoding, ruled_runs, _CALLED, "P14"),
    state_of_runs("ruled_engine", rows_are_handed_on_without_what_they_knew, handed_on_runs, _CALLED, "P15"),
)
