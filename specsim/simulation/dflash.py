"""What an engine may not ask of a worker of DFLASH."""

from specsim.rejection import contradiction
from specsim.simulation.requests import Request


def check_dflash_request(request: Request) -> None:
    """Refuse a request that brings a grammar, or asks for log-probabilities.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION.

    Notes
    -----
    Source: semantics A.14.
    """
    for what, got in (("grammar", request.grammar), ("top_logprobs", request.top_logprobs)):
        if got is not None:
            raise contradiction(
                what=f"{what} of request {request.request_id}",
                got=got if isinstance(got, int) else type(got).__name__,
                expected="None",
                because="DFLASH serves neither grammars nor log-probabilities",
            )
