"""Faults in the adaptive controller."""

from dataclasses import replace

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import mutants_of_operations, with_arguments

_DOWN = "while place > 0 and ema <= candidates[place - 1] - 0.5 + slot.down:\n    place -= 1"
_UP = "while place + 1 < len(candidates) and ema > candidates[place] - 0.5 + slot.up:\n    place += 1"
_DECIDED = "_decide(state.num_steps, ema, slot, config.ceiling)"

_ADAPT = "adapt_num_steps"
_ROUTE = "route_batch_size"

MUTANTS = mutants_of_operations(
    {
        ("OWN-144", _ADAPT, "Steps upward are tried before steps downward."): edited(
            f"{_DOWN}\n{_UP}", f"{_UP}\n{_DOWN}", within="_decide"
        ),
        ("OWN-145", _ADAPT, "The last verify of the warm-up decides."): edited(
            "count <= config.warmup", "count < config.warmup"
        ),
        ("OWN-146", _ADAPT, "The bonus token counts as an accepted draft."): with_arguments(
            num_accepted_drafts=lambda counts: [count + 1 for count in counts]
        ),
        ("OWN-147", _ADAPT, "The latest mean has the weight of the past."): with_arguments(
            config=lambda config: replace(config, alpha=1.0 - config.alpha)
        ),
        ("OWN-148", _ADAPT, "The ceiling also holds for a decision that rises."): edited(
            "candidates[place] <= num_steps", "True", within="_decide"
        ),
        ("OWN-149", _ADAPT, "A verify without requests counts."): edited(
            "return state", "return replace(state, count=state.count + 1)"
        ),
        ("OWN-150", _ADAPT, "The number of steps changes by one, candidate or not."): edited(
            _DECIDED, f"state.num_steps + max(-1, min(1, {_DECIDED} - state.num_steps))"
        ),
        ("OWN-151", _ROUTE, "The batch is routed before it is padded."): with_arguments(graph_sizes=()),
    }
)
