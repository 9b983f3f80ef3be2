"""Requests that an engine refuses, because they could never run."""

from specsim.config import PoolSizes, SpecConfig
from specsim.host.logit_rules import LogitRules
from specsim.rejection import Reason, SpecRejection, contradiction
from specsim.simulation.logprobs import check_reported
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.pools import most_positions
from specsim.simulation.requests import Request
from specsim.simulation.sampled import check_sampling


def check_request(config: SpecConfig, sizes: PoolSizes, request: Request, num_swa_slots: int) -> None:
    """Raise unless a request could run alone, which may hold so many SWA slots at once.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: an empty prompt, no token asked for, or a prompt that leaves no room in the context;
        BAD_CONFIGURATION: rules that contradict themselves; ROW_TOO_SHORT, OUT_OF_SLOTS: it could never be admitted.
    """
    for what, got in (("len(prompt)", len(request.prompt)), ("max_new_tokens", request.max_new_tokens)):
        if got < 1:
            raise SpecRejection(Reason.COUNT_OUT_OF_RANGE, what, got, "at least 1", "it is decoded from")
    limit = request.rules.context_limit
    if limit is not None and len(request.prompt) >= limit:
        because = "the context has to hold an output token"
        raise SpecRejection(Reason.COUNT_OUT_OF_RANGE, "len(prompt)", len(request.prompt), f"below {limit}", because)
    size, which = sizes.page_size, " that a window may reach at once"
    need, most_swa = most_positions(config, request, size), max(0, sizes.num_swa_slots - size)
    for reason, got, of, most, because in (
        (Reason.ROW_TOO_SHORT, need, "", sizes.row_width + size - 1, "a row holds no more"),
        (Reason.OUT_OF_SLOTS, need, "", sizes.num_slots - size, "the pool has no more slots"),
        (Reason.OUT_OF_SLOTS, num_swa_slots, which, most_swa, "the SWA pool has no more slots"),
    ):
        if got > most:
            what, expected = f"positions of the request{of}", f"at most {most}"
            raise SpecRejection(reason, what, got, expected, because)


def check_choice(model: ModelDescription, wants_report: bool, request: Request) -> None:
    """Raise unless a model can choose the tokens of a request as it asks; ``wants_report`` says that its worker tells.

    Raises
    ------
    SpecRejection
        What ``check_sampling`` and ``check_reported`` raise; TOKEN_OUT_OF_RANGE: a rule about a token that the model
        does not know; EMPTY_DISTRIBUTION: rules that may forbid everything; BAD_CONFIGURATION: a grammar that is
        complete before the first token, or whose last way on rules may forbid, a minimum of tokens above the maximum,
        and penalties or biases of logits that make no distribution.
    """
    if request.grammar is not None and request.grammar().is_terminated():
        because = "a request outputs at least one token"
        raise contradiction("grammar", "a complete text", "one that goes on", because)
    check_sampling(model, request.sampling)
    check_reported(model, wants_report, request.choice)
    if request.logit_rules is not None:
        _check_rules(model, request, request.logit_rules)


def _check_rules(model: ModelDescription, request: Request, rules: LogitRules) -> None:
    stops = request.rules.eos_tokens | request.rules.stop_tokens
    words = (token for word in rules.bad_words for token in word)
    for what, tokens in (("logit_bias", (token for token, _ in rules.logit_bias)), ("bad_words", words)):
        for token in tokens:
            if token >= model.vocab_size:
                expected, because = f"below {model.vocab_size}", "it is no token of the model"
                raise SpecRejection(Reason.TOKEN_OUT_OF_RANGE, what, token, expected, because)
    if rules.has_strengths and not model.has_sampling_logits:
        because = f"{model.name} has no logits that make a distribution"
        raise contradiction("logit_rules", "penalties or biases", "none", because)
    if rules.forbids and request.grammar is not None:
        because = "it may allow nothing but what they forbid"
        raise contradiction("logit_rules beside a grammar", "forbidden tokens", "penalties and biases alone", because)
    if rules.min_tokens > request.max_new_tokens:
        expected, because = f"at most {request.max_new_tokens}", "the output cannot be longer than max_new_tokens"
        raise contradiction("min_tokens", rules.min_tokens, expected, because)
    forbidden = {token for token in stops if rules.min_tokens and token < model.vocab_size} | rules.most_forbidden
    if len(forbidden) == model.vocab_size:
        expected, because = "all but one at most", "a token is chosen among the others"
        raise SpecRejection(Reason.EMPTY_DISTRIBUTION, "tokens that logit_rules forbid", "all", expected, because)
