"""A small random model shaped like Qwen3-Embedding, as folder and as GGUF, made when tests run.

A program of its own, in the venv that has torch: `python tests/embeddings/tiny_model.py FOLDER`.
FOLDER/model is what sentence-transformers and the lane load, FOLDER/model.gguf what llama.cpp does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

VOCABULARY = 2048
CONTEXT = 1024
TERMINAL = "<|endoftext|>"  # the padding token too, as in the model it stands for
CONFIG: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": CONTEXT,
    "tie_word_embeddings": True,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
PROMPT = "Instruct: Given a web search query, retrieve relevant passages\nQuery:"
# llama.cpp's names of a layer's tensors -> those of transformers
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def tokenizer() -> Tokenizer:
    """A byte-level BPE trained on Python's own sources, which ends every text with the terminal."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=[TERMINAL, "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sources = sorted(Path(json.__file__).parents[1].glob("*.py"))[:80]
    bpe.train([str(path) for path in sources], trainer)
    bpe.post_processor = processors.TemplateProcessing(
        single=f"$A {TERMINAL}",
        pair=f"$A {TERMINAL} $B:1 {TERMINAL}:1",
        special_tokens=[(TERMINAL, bpe.token_to_id(TERMINAL))],
    )
    return bpe


def main(folder: Path) -> None:
    """Make both forms."""
    torch.manual_seed(2)
    model = Qwen3ForCausalLM(Qwen3Config(**CONFIG))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.12)
    model = model.to(torch.float32)
    bpe = tokenizer()
    save_folder(folder / "model", model, bpe)
    save_gguf(folder / "model.gguf", model, bpe)


def save_folder(folder: Path, model: Any, bpe: Tokenizer) -> None:
    """As the published model lies in its folder, sentence-transformers' modules included."""
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token=TERMINAL,
        model_max_length=CONTEXT,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)
    kinds = ("Transformer", "Pooling", "Normalize")
    modules = [
        {
            "idx": index,
            "name": str(index),
            "path": f"{index}_{kind}" if index else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for index, kind in enumerate(kinds)
    ]
    (folder / "1_Pooling").mkdir()
    (folder / "2_Normalize").mkdir()
    pooling = {"word_embedding_dimension": 64, "pooling_mode_lasttoken": True}
    prompts = {"prompts": {"query": PROMPT}, "default_prompt_name": None}
    for name, content in (
        ("modules.json", modules),
        ("1_Pooling/config.json", pooling),
        ("config_sentence_transformers.json", prompts),
    ):
        (folder / name).write_text(json.dumps(content))


def save_gguf(path: Path, model: Any, bpe: Tokenizer) -> None:
    """For llama.cpp, in float32; add_eos_token is the post-processor's part there."""
    writer = gguf.GGUFWriter(str(path), "qwen3")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(CONFIG["hidden_size"])
    writer.add_feed_forward_length(CONFIG["intermediate_size"])
    writer.add_block_count(CONFIG["num_hidden_layers"])
    writer.add_head_count(CONFIG["num_attention_heads"])
    writer.add_head_count_kv(CONFIG["num_key_value_heads"])
    writer.add_key_length(CONFIG["head_dim"])
    writer.add_value_length(CONFIG["head_dim"])
    writer.add_layer_norm_rms_eps(float(model.config.rms_norm_eps))
    writer.add_rope_freq_base(10000.0)
    writer.add_pooling_type(gguf.PoolingType.LAST)
    add_vocabulary(writer, bpe)
    tensors = {name: value.numpy() for name, value in model.state_dict().items()}
    writer.add_tensor("token_embd.weight", tensors["model.embed_tokens.weight"])
    writer.add_tensor("output_norm.weight", tensors["model.norm.weight"])
    for layer in range(CONFIG["num_hidden_layers"]):
        for theirs, ours in LAYER.items():
            value = tensors[f"model.layers.{layer}.{ours}.weight"]
            writer.add_tensor(f"blk.{layer}.{theirs}.weight", value.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_vocabulary(writer: gguf.GGUFWriter, bpe: Tokenizer) -> None:
    """Tokens, merges and the rules around them."""
    known = bpe.get_vocab_size()
    tokens = [bpe.id_to_token(each) or "" for each in range(known)]
    tokens += [f"[PAD{each}]" for each in range(known, VOCABULARY)]
    kinds = [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (known - 3)
    kinds += [gguf.TokenType.UNUSED] * (VOCABULARY - known)
    merges = json.loads(bpe.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([each if isinstance(each, str) else " ".join(each) for each in merges])
    writer.add_eos_token_id(0)
    writer.add_pad_token_id(0)
    writer.add_add_eos_token(True)
    writer.add_add_bos_token(False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
