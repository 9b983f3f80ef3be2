"""A loop that serves requests with kernels of its own, recorded while it runs."""

import numpy as np
from my_kernels import fill_bonus_tokens

import specsim


def serve(num_iterations: int) -> None:
    """Stand for an engine: every iteration ends with the bonus token of each request."""
    random = np.random.default_rng(0)
    for _ in range(num_iterations):
        num_requests = random.integers(1, 9)
        accept_tokens = random.integers(0, 32000, (num_requests, 4), dtype=np.int32)
        num_accepted_tokens = random.integers(1, 5, num_requests, dtype=np.int32)
        fill_bonus_tokens(accept_tokens, num_accepted_tokens)


if __name__ == "__main__":
    with specsim.record("calls", "my_kernels", limit=20) as recording:
        serve(100)
    print(*recording.in_words(), sep="\n")
