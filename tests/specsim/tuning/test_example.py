"""The example writes what a pair of transformers' models says, so that a sweep can replay it."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from specsim.tuning.dumps import SCHEMA, Dump, replayed

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "write_logits.py"
VOCAB = 8


class Bigrams:
    """A causal language model with what the example calls of transformers' ones: the next token is a table's."""

    def __init__(self, table):
        self._rows = torch.nn.functional.one_hot(torch.tensor(table), VOCAB).float()

    def __call__(self, text):
        return SimpleNamespace(logits=self._rows[text])

    def generate(self, text, max_new_tokens, do_sample, temperature=None, top_k=None):
        assert (do_sample, temperature, top_k) in ((False, None, None), (True, 0.5, 0))
        for _ in range(max_new_tokens):
            text = torch.cat([text, self._rows[text[:, -1:]].argmax(dim=-1)], dim=1)
        return text


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_the_example_writes_a_dump(tmp_path, temperature):
    """The target counts on, and the draft does so but after 7: every eighth draft is wrong."""
    dump_of = runpy.run_path(str(EXAMPLE))["dump_of"]
    after = [(token + 1) % VOCAB for token in range(VOCAB)]
    target, draft = Bigrams(after), Bigrams([*after[:-1], 3])
    prompts = [torch.tensor([5, first]) for first in range(3)]
    path = tmp_path / "rows.safetensors"
    save_file(dump_of(target, draft, prompts, 17, temperature), path, {"schema": SCHEMA})
    dump = Dump(path)
    assert dump.num_prompts == 3
    outputs = list(dump.judged(temperature))
    # The output is 1 to 7, 0, 1 and so on: verifies of one draft begin at places 1, 3, 5 and 7, where it is wrong,
    # and then at 8, 10, 12, 14 and 16.
    (first, *_) = replayed(outputs, 1, 1, 2, temperature, is_drawn=False)
    assert (first.verifies, first.accepted) == (9.0, 8.0)
