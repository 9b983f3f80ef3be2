"""Faults in the adaptive controller."""

from specsim.properties.mutants.record import edits_of

MUTANTS = edits_of(
    """
    @@ adapt_num_steps in _decide
    OWN-144 Steps upward are tried before steps downward.
    - while place > 0 and ema <= candidates[place - 1] - 0.5 + slot.down:
    -     place -= 1
    - while place + 1 < len(candidates) and ema > candidates[place] - 0.5 + slot.up:
    -     place += 1
    + while place + 1 < len(candidates) and ema > candidates[place] - 0.5 + slot.up:
    +     place += 1
    + while place > 0 and ema <= candidates[place - 1] - 0.5 + slot.down:
    +     place -= 1
    OWN-148 The ceiling also holds for a decision that rises.
    - candidates[place] <= num_steps => True
    @@ adapt_num_steps
    OWN-145 The last verify of the warm-up decides.
    - count <= config.warmup => count < config.warmup
    OWN-146 The bonus token counts as an accepted draft.
    - sum(num_accepted_drafts) / len(num_accepted_drafts) => sum(num_accepted_drafts) / len(num_accepted_drafts) + 1
    OWN-147 The latest mean has the weight of the past.
    - (1.0 - config.alpha) * state.ema + config.alpha * mean => config.alpha * state.ema + (1.0 - config.alpha) * mean
    OWN-149 A verify without requests counts.
    - return state => return replace(state, count=state.count + 1)
    OWN-150 The number of steps changes by one, candidate or not.
    - _decide(state.num_steps, ema, slot, config.ceiling)
    + state.num_steps + max(-1, min(1, _decide(state.num_steps, ema, slot, config.ceiling) - state.num_steps))
    @@ route_batch_size
    OWN-151 The batch is routed before it is padded.
    - graph_sizes => ()
    """
)
