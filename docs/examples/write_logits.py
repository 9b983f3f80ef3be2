"""Write the logits of a target and its draft along the target's own outputs, for ``specsim sweep --dump``.

``python write_logits.py TARGET DRAFT PROMPTS.txt rows.safetensors`` takes two models of transformers that share a
tokenizer, and a prompt a line. With ``--temperature T`` outputs are sampled, and are replayed at this temperature.
"""

import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file


def rows_along(model, text, num_prompt_tokens):
    """Return the row of logits from which each token after the prompt was chosen, or would be by this model."""
    return model(text[None]).logits[0, num_prompt_tokens - 1 : -1].half().cpu().contiguous()


def dump_of(target, draft, prompts, max_new_tokens, temperature):
    """Return the tensors of a dump: the target goes on with each prompt, and both models read what came of it.

    ``target`` and ``draft`` are causal language models of transformers, ``prompts`` token ids, int64 [token] each.
    """
    sampling = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}
    tensors = {}
    with torch.inference_mode():
        for number, prompt in enumerate(prompts):
            text = target.generate(prompt[None], max_new_tokens=max_new_tokens, **sampling)[0]
            tensors[f"{number}.prompt"] = prompt.cpu()
            tensors[f"{number}.tokens"] = text[len(prompt) :].cpu().contiguous()
            tensors[f"{number}.target"] = rows_along(target, text, len(prompt))
            tensors[f"{number}.draft"] = rows_along(draft, text, len(prompt))
    return tensors


def main():
    """Load both models, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("target", "draft", "prompts", "file"):
        parser.add_argument(name)
    parser.add_argument("--max-new-tokens", type=int, default=256)
    parser.add_argument("--temperature", type=float, default=0.0)
    given = parser.parse_args()
    from transformers import AutoModelForCausalLM, AutoTokenizer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    models = [AutoModelForCausalLM.from_pretrained(name).to(device).eval() for name in (given.target, given.draft)]
    tokenizer = AutoTokenizer.from_pretrained(given.target)
    lines = [line for line in Path(given.prompts).read_text("utf-8").splitlines() if line.strip()]
    prompts = [torch.tensor(tokenizer(line).input_ids, device=device) for line in lines]
    tensors = dump_of(*models, prompts, given.max_new_tokens, given.temperature)
    save_file(tensors, given.file, {"schema": "specsim.logits/1", "target": given.target, "draft": given.draft})


if __name__ == "__main__":
    main()
