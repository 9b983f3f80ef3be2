"""What a run is compared with: one prompt decoded token by token, under the rules of ending that the engine has."""

from collections.abc import Sequence

from specsim.host.stopping import Finish, StopRules, find_stop
from specsim.simulation.models.language_models import LanguageModel, Prefix
from specsim.simulation.scheduler import TOKEN_TEXT


def decode_alone(model: LanguageModel, prompt: Sequence[int], rules: StopRules) -> tuple[list[int], Finish]:
    """Return the output and its end, testing the rules after every single token."""
    prefix = Prefix(model)
    for token in prompt:
        prefix.append(token)
    output: list[int] = []
    while True:
        token = prefix.next_token()
        finish = find_stop(rules, output, [token], len(prompt), TOKEN_TEXT)
        output.append(token)
        if finish is not None:
            return output, finish
        prefix.append(token)
