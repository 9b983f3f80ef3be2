"""Checkpoints that tests make: random numbers in the shape of an architecture, and a tokenizer of bytes."""

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

LLAMA, QWEN, NEOX = "llama", "qwen3", "gpt_neox"
ARCHITECTURES = (LLAMA, QWEN, NEOX)


def config_of(
    architecture, vocab_size=32, hidden=32, layers=2, heads=4, kv_heads=2, spread=0.6, dtype="float32", **others
):
    """Return the configuration of a checkpoint; ``spread`` is how far weights spread around 0."""
    config = transformers.CONFIG_MAPPING[architecture](
        vocab_size=vocab_size,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * hidden,
        max_position_embeddings=4096,
        initializer_range=spread,
        **{"bos_token_id": None, "eos_token_id": None, "pad_token_id": None, "dtype": dtype, **others},
    )
    if hasattr(config, "num_key_value_heads"):
        config.num_key_value_heads = kv_heads
    if hasattr(config, "head_dim"):
        config.head_dim = hidden // heads
    return config


def save_checkpoint(folder, config, seed):
    """Write a checkpoint of random numbers, and return its network."""
    torch.manual_seed(seed)
    network = transformers.AutoModelForCausalLM.from_config(config, dtype=config.dtype)
    network.save_pretrained(folder)
    return network


def save_tokenizer(folder, letters="abcdefghijklmnopqrstuvwxyz .!?\n,"):
    """Write a tokenizer that has a token for each of some letters."""
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
