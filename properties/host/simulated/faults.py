"""Faults in how many tokens a simulated verify outputs."""

from specsim.properties.mutants.record import edits_of

MUTANTS = edits_of(
    """
    @@ simulated_num_tokens
    OWN-186 A normal sample is rounded down.
    - round(min(max(mean + sample, 1.0), float(most))) => math.floor(min(max(mean + sample, 1.0), float(most)))
    OWN-187 The shares of the two neighbours are swapped.
    - sample < aimed - below => sample < 1 - (aimed - below)
    OWN-188 A count may exceed the path.
    - path_width(num_steps) => path_width(num_steps) + 1
    OWN-189 A mean of 0 simulates too.
    - mean <= 0 => False
    """
)
