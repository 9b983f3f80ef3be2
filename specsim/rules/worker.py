"""Which worker runs the configuration: V2 wherever it can, V1 with a reason (semantics F.3)."""

from specsim.algorithms import Algorithm
from specsim.rejection import contradiction
from specsim.rules.plan import Code, Resolution
from specsim.rules.sizes import expected_topk


def choose_worker(state: Resolution) -> None:
    """Choose between V1 and V2 for the algorithms that both have."""
    config = state.config
    topk = expected_topk(config)
    is_paged_tree = topk > 1 and config.page_size > 1
    is_recurrent_tree = topk > 1 and config.recurrent
    if config.mode == "v1":
        force_v1(state)
    elif config.mode == "v2":
        force_v2(state)
    elif config.disable_overlap:
        _fall_back(state, Code.OVERLAP_DISABLED)
    elif is_paged_tree:
        _fall_back(state, Code.PAGED_TREE, f"Here topk is {topk} and the page size {config.page_size}.")
    elif is_recurrent_tree:
        _fall_back(state, Code.RECURRENT_TREE, f"Here topk is {topk}.")
    elif not config.enable_spec_v2:
        _fall_back(state, Code.V2_NOT_ENABLED)
    else:
        state.worker = "v2"
        state.decide(Code.V2_CHOSEN)


def choose_without_overlap(state: Resolution) -> None:
    """Run an algorithm that nothing overlaps on V1, on V2 only if asked for; switch overlap off if the user did not."""
    config = state.config
    if config.mode == "v1":
        force_v1(state)
        return
    if config.mode == "v2":
        state.worker = "v2"
        state.decide(Code.V2_STEP_BY_STEP, f"The algorithm is {config.algorithm}.", disable_overlap=True)
        return
    state.worker = "v1"
    note = state.decide if config.disable_overlap else state.warn
    note(Code.ALGORITHM_WITHOUT_V2, f"The algorithm is {config.algorithm}.", disable_overlap=True)


def choose_for_plugin(state: Resolution, algorithm: Algorithm) -> None:
    """Overlap a plug-in if it can be; refuse overlap that it does not support."""
    config = state.config
    if config.mode == "v1":
        force_v1(state)
    elif not algorithm.supports_spec_v2():
        if config.mode == "auto" and not config.disable_overlap:
            because = f"the plug-in {config.algorithm} does not support overlap"
            raise contradiction("disable_overlap", False, "True, or mode v1", because)
        if config.mode == "v2":
            raise contradiction("mode", "v2", "auto or v1", f"V2 does not have {config.algorithm}")
        choose_without_overlap(state)
    elif config.mode == "v2":
        force_v2(state)
    elif config.disable_overlap:
        _fall_back(state, Code.OVERLAP_DISABLED)
    else:
        state.worker = "v2"
        state.decide(Code.V2_CHOSEN)


def force_v1(state: Resolution) -> None:
    """Run V1 because the user asks for it."""
    state.worker = "v1"
    state.decide(Code.FORCED_V1, disable_overlap=True)


def force_v2(state: Resolution) -> None:
    """Run V2 because the user asks for it, step by step if overlap is off or V2 is not enabled."""
    state.worker = "v2"
    if state.config.disable_overlap or not state.config.enable_spec_v2:
        state.decide(Code.V2_SYNCHRONOUS, disable_overlap=True)
    else:
        state.decide(Code.FORCED_V2)


def _fall_back(state: Resolution, code: Code, about: str = "") -> None:
    state.worker = "v1"
    state.warn(code, about, disable_overlap=True)
