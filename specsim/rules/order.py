"""The rules in order."""

from collections.abc import Callable
from dataclasses import fields

from specsim.algorithms import WITH_CHECKED_SIZES, CustomSpecAlgo, SpeculativeAlgorithm
from specsim.host.adaptive import require_candidate
from specsim.rejection import contradiction
from specsim.rules import common
from specsim.rules.config import ServerConfig
from specsim.rules.eagle import resolve_eagle
from specsim.rules.others import resolve_dflash, resolve_frozen_kv_mtp, resolve_ngram
from specsim.rules.plan import Code, ExecutionPlan
from specsim.rules.resolution import Resolution
from specsim.rules.sizes import check_steps
from specsim.rules.worker import choose_for_plugin


def resolve(config: ServerConfig) -> ExecutionPlan:
    """Decide what runs a configuration.

    Parameters
    ----------
    config : ServerConfig
        As the user gives it.

    Returns
    -------
    plan : ExecutionPlan
        Resolving the settings of a plan again changes nothing.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: settings contradict each other; ``expected`` says what to change.
        UNKNOWN_NAME: there is no such algorithm.

    Notes
    -----
    Source: semantics F.1, F.2, F.3, F.4, F.5, F.6.
    """
    state = Resolution(config)
    common.require_ranges(config)
    if config.algorithm is not None and config.algorithm.upper() != SpeculativeAlgorithm.NONE:
        common.fill_draft_defaults(state)
    common.resolve_name(state)
    algorithm = SpeculativeAlgorithm.from_string(state.config.algorithm)
    common.check_draft_window(state)
    if isinstance(algorithm, CustomSpecAlgo):
        _validate_plugin(state, algorithm)
    common.check_skip_dp_sync(state)
    if algorithm.is_none():
        state.decide(Code.NOT_SPECULATIVE)
    else:
        common.check_pipeline(state)
        common.check_recurrent_buffer(state)
        if isinstance(algorithm, CustomSpecAlgo):
            choose_for_plugin(state, algorithm)
        else:
            _rules_of(algorithm)(state)
        common.check_snapshots(state)
    resolve_adaptive(state)
    check_steps(state.config)
    return state.plan()


def resolve_adaptive(state: Resolution) -> None:
    """Switch the adaptive controller off where it cannot run (semantics F.6)."""
    config = state.config
    if not config.adaptive:
        return
    obstacles = [
        name
        for name, is_there in (
            (f"the algorithm {config.algorithm}", config.algorithm not in ("EAGLE", "EAGLE3")),
            (f"topk {config.topk}", config.topk != 1),
            ("data-parallel attention", config.dp_attention),
            ("a layer a draft step", config.multi_layer),
            ("two-batch overlap", config.two_batch_overlap),
            ("prefill multiplexing", config.pdmux),
        )
        if is_there
    ]
    if obstacles:
        state.warn(Code.ADAPTIVE_DISABLED, f"It does not work with {', '.join(obstacles)}.", adaptive=False)
    else:
        require_candidate(config.num_steps, config.adaptive_config)


def _rules_of(algorithm: SpeculativeAlgorithm) -> Callable[[Resolution], None]:
    """Return the rules of a built-in algorithm that drafts."""
    if algorithm in WITH_CHECKED_SIZES:
        return resolve_eagle
    if algorithm.is_dflash():
        return resolve_dflash
    return resolve_frozen_kv_mtp if algorithm.is_frozen_kv_mtp() else resolve_ngram


def _validate_plugin(state: Resolution, plugin: CustomSpecAlgo) -> None:
    if plugin.validate_server_args is None:
        return
    adjusted = plugin.validate_server_args(state.config)
    if adjusted is None or adjusted == state.config:
        return
    if not isinstance(adjusted, ServerConfig):
        got = type(adjusted).__name__
        raise contradiction("validate_server_args", got, "a ServerConfig or None", f"{plugin.name} returned it")
    changed = {entry.name: vars(adjusted)[entry.name] for entry in fields(ServerConfig)}
    state.decide(Code.PLUGIN_ADJUSTED, **changed)
