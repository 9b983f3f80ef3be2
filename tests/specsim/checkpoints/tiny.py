"""Checkpoints that tests make: random numbers in the shape of an architecture, and a tokenizer of bytes."""

import torch
import transformers
from safetensors.torch import save_file
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


def save_head(folder, target, seed, is_third, layers=(0, 1, 2), draft_vocab=None, hidden=32, heads=4, kv_heads=2):
    """Write a head of EAGLE or EAGLE-3 for a target of a configuration, in the layout of its authors."""
    generator, width, vocab = torch.Generator().manual_seed(seed), target.hidden_size, target.vocab_size
    tokens = vocab if draft_vocab is None else draft_vocab
    head_dim, layer = hidden // heads, "midlayer" if is_third else "layers.0"
    read = 2 * hidden if is_third else hidden
    shapes = {
        "fc.weight": (hidden, 3 * width if is_third else hidden + width),
        f"{layer}.self_attn.q_proj.weight": (hidden, read),
        f"{layer}.self_attn.k_proj.weight": (kv_heads * head_dim, read),
        f"{layer}.self_attn.v_proj.weight": (kv_heads * head_dim, read),
        f"{layer}.self_attn.o_proj.weight": (hidden, hidden),
        f"{layer}.mlp.gate_proj.weight": (48, hidden),
        f"{layer}.mlp.up_proj.weight": (48, hidden),
        f"{layer}.mlp.down_proj.weight": (hidden, 48),
        f"{layer}.post_attention_layernorm.weight": (hidden,),
    }
    if is_third:
        shapes |= {f"{layer}.{name}.weight": (hidden,) for name in ("hidden_norm", "input_layernorm")}
        shapes |= {"norm.weight": (hidden,), "lm_head.weight": (tokens, hidden)}
    else:
        shapes |= {"fc.bias": (hidden,), "embed_tokens.weight": (vocab, hidden)}
    weights = {name: torch.randn(shape, generator=generator) * 0.5 for name, shape in shapes.items()}
    if draft_vocab is not None:
        chosen = torch.randperm(vocab, generator=generator)[:draft_vocab].sort().values
        weights["d2t"] = chosen - torch.arange(draft_vocab)
        weights["t2d"] = torch.isin(torch.arange(vocab), chosen)
    config = transformers.LlamaConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        num_hidden_layers=1,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=48,
        architectures=["LlamaForCausalLMEagle3" if is_third else "LlamaForCausalLM"],
        **({"eagle_config": {"eagle_aux_hidden_state_layer_ids": list(layers)}} if is_third else {}),
    )
    config.save_pretrained(folder)
    if is_third:
        save_file(weights, folder / "model.safetensors")
    else:
        torch.save(weights, folder / "pytorch_model.bin")
    return weights
