"""Runs of EAGLE as runs of any drafter: with the draft, the sizes and the vocabulary that it can run."""

from dataclasses import replace
from typing import Any

from specsim.algorithms import DRAFTERS
from specsim.config import SpecConfig
from specsim.counts import path_width
from specsim.host.dflash import DflashParameters
from specsim.host.ngram import NgramParameters
from specsim.properties.runs.scenario import Scenario
from specsim.simulation.models.needs import fields_for
from specsim.simulation.models.pool_kinds import PoolKind


def _named() -> dict[str, tuple[str, bool]]:
    """Return the drafter of each worker and whether it is one of V1; EAGLE3's workers are EAGLE's."""
    found: dict[str, tuple[str, bool]] = {}
    for drafter, record in DRAFTERS.items():
        for is_v1 in (True, False):
            name = record.worker_name(is_v1)
            found[name.replace("eagle", "eagle3") if drafter == "EAGLE3" else name] = drafter, is_v1
    return found


NAMED = _named()
V1_WORKERS = tuple(name for name, (_, is_v1) in NAMED.items() if is_v1)
V2_WORKERS = tuple(name for name, (_, is_v1) in NAMED.items() if not is_v1)
ALL_WORKERS = (*V1_WORKERS, *V2_WORKERS)
"""Every drafter on either loop, by the names of their workers."""

FEW_TOKENS = 3
"""Tokens of a vocabulary in which some path of a store goes on as the target does, and some does not."""


def drafted_by(name: str, scenario: Scenario, **changes: Any) -> Scenario:
    """Return a run like one of EAGLE on the worker of a name, with some changes; a window is of three positions.

    Where drafts read the target's KV, it lies in keys and values.
    """
    drafter, is_v1 = NAMED[name]
    record, config = DRAFTERS[drafter], scenario.config
    if record.is_multi_layer or record.cuts_by_company:
        config = SpecConfig(1, config.num_steps, path_width(config.num_steps))
    fields: dict[str, Any] = fields_for(record, config.num_steps, (scenario.model.num_target_layers - 1,))
    sizes: Any = config
    if record.cuts_by_company:
        sizes, fields["hot_token_id"] = DflashParameters(config.num_draft_tokens), None
    if record.reads_texts:
        sizes = NgramParameters(max_depth=4, max_breadth=2, num_draft_tokens=config.num_draft_tokens)
        fields |= {"vocab_size": FEW_TOKENS, "hot_token_id": None}
        prompts = [tuple(token % FEW_TOKENS for token in one.prompt) for one in scenario.arrivals]
        fields["arrivals"] = tuple(
            replace(one, prompt=prompt, eos_token=None) for one, prompt in zip(scenario.arrivals, prompts, strict=True)
        )
    drafted = scenario.having(drafter=drafter, is_v1=is_v1, sizes=sizes, window=3, **fields).having(**changes)
    return drafted.having(target_pool=PoolKind.MHA) if record.reads_target_kv else drafted
