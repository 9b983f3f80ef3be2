"""What an observer gets of iterations and of ends of requests."""

from collections.abc import Mapping, Sequence

from specsim.config import MOST_PACKED_NODES, PoolSizes, SpecConfig
from specsim.host.logit_rules import LogitRules
from specsim.host.sampling import ALL_TOKENS, SamplingParameters
from specsim.host.stopping import FinishReason
from specsim.simulation.events import Observer, Tag
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.requests import Request

STOPS = {FinishReason.EOS, FinishReason.STOP_STRING, FinishReason.STOP_TOKEN}
LIMITS = {FinishReason.LENGTH, FinishReason.CONTEXT}


def tell_iteration(
    num_accepted_drafts: Sequence[int],
    own_steps: Sequence[int],
    requests: Sequence[Request],
    config: SpecConfig,
    is_changed: bool,
    model: ModelDescription,
    sizes: PoolSizes,
    observer: Observer,
) -> None:
    """Tell an observer what an iteration was like.

    Parameters
    ----------
    num_accepted_drafts : sequence of int
        One count a request.
    own_steps : sequence of int
        How many steps each request drafted.
    requests : sequence of Request
        Those that it was launched for; its result is resolved.
    config : SpecConfig
        The sizes that it ran with.
    is_changed : bool
        Whether the iteration before it ran with others.
    """
    drafts, num_steps = num_accepted_drafts, config.num_steps
    components = [one.num_layers for one in model.kv_components]
    sampling = [request.sampling for request in requests if request.sampling is not None and not request.is_greedy]
    rules = [request.logit_rules for request in requests if request.logit_rules is not None]
    for tag, is_so in (
        (Tag.ANY, True),
        (Tag.ACCEPTED, any(drafts)),
        (Tag.ZERO, 0 in drafts),
        (Tag.REJECTED, any(0 < count < steps for count, steps in zip(drafts, own_steps, strict=True))),
        (Tag.FULL, any(0 < count == steps for count, steps in zip(drafts, own_steps, strict=True))),
        (Tag.BATCH, len(drafts) > 1),
        (Tag.RAGGED, len(set(drafts)) > 1),
        (Tag.TREE, config.topk > 1),
        (Tag.STEPS, num_steps > 1),
        (Tag.ROUNDS, any(request.counters.num_verifies > 1 for request in requests)),
        (Tag.DYNAMIC, is_changed),
        (Tag.PAGES, sizes.page_size > 1),
        (Tag.SAMPLED, bool(sampling)),
        (Tag.FILTERED, any(map(_has_filter, sampling))),
        (Tag.BIG, config.num_draft_tokens > MOST_PACKED_NODES),
        (Tag.SIDE, any(request.choice.wants_report for request in requests)),
        (Tag.RECURRENT, bool(model.state_components)),
        (Tag.COMPONENTS, len(components) > 1 or max(components, default=0) > 1),
        (Tag.PENALTY, any(map(_has_penalty, rules))),
        (Tag.BIAS, any(one.logit_bias for one in rules)),
        (Tag.MINIMUM, any(one.min_tokens for one in rules)),
        (Tag.BAD_WORD, any(one.bad_words for one in rules)),
    ):
        if is_so:
            observer(tag)


def tell_numbers(before: Mapping[int, int], after: Mapping[int, int], observer: Observer) -> None:
    """Tell an observer how the steps of single requests differ, and from those that they had before.

    Parameters
    ----------
    before, after : mapping
        How many steps a request drafted in the last iteration and in this one, by its number.
    """
    pairs = [(before[number], steps) for number, steps in after.items() if number in before]
    for tag, is_so in (
        (Tag.MIXED, len(set(after.values())) > 1),
        (Tag.RESTING, 0 in after.values() and any(after.values())),
        (Tag.NARROWER, any(one > other for one, other in pairs)),
        (Tag.WIDER, any(one < other for one, other in pairs)),
    ):
        if is_so:
            observer(tag)


def tell_end(request: Request, observer: Observer) -> None:
    """Tell an observer that a request has ended, and by which cause."""
    observer(Tag.FINISH)
    for tag, reasons in ((Tag.STOP, STOPS), (Tag.LIMIT, LIMITS), (Tag.GRAMMAR, {FinishReason.GRAMMAR})):
        if request.finish_reason in reasons:
            observer(tag)


def _has_penalty(rules: LogitRules) -> bool:
    return any((rules.frequency_penalty, rules.presence_penalty, rules.repetition_penalty - 1))


def _has_filter(sampling: SamplingParameters) -> bool:
    return sampling.top_k < ALL_TOKENS or sampling.top_p < 1 or sampling.min_p > 0
