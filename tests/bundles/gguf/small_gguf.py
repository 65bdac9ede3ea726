"""A GGUF file of a few thousand weights, written with llama.cpp's own library."""

from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

Types = gguf.GGMLQuantizationType


def blocks_of(kind: Types, rows: int, columns: int, seed: int = 0) -> NDArray[np.uint8]:
    """Random weights of a type: any bytes are some, but for the scales."""
    rng = np.random.default_rng(seed)
    block_weights, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    count = rows * columns // block_weights
    blocks = rng.integers(0, 256, (count, block_bytes), dtype=np.uint8)
    at = {Types.Q4_1: (0, 2), Types.Q5_1: (0, 2), Types.Q6_K: (208,)}.get(kind, (0,))
    for offset in at:
        scale = rng.normal(0, 0.02, (count, 1)).astype(np.float16)
        blocks[:, offset : offset + 2] = scale.view(np.uint8)
    return blocks.reshape(rows, -1)


def write_gguf(
    path: Path, tensors: dict[str, tuple[Types, NDArray[np.uint8]]], *, architecture: str = "qwen2"
) -> Path:
    """A file with these tensors, a norm of float32, and some metadata."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_string("general.name", "Säule 柱")
    writer.add_array("tokenizer.ggml.tokens", ["a", "bc", "你好", ""])
    writer.add_array("tokenizer.ggml.scores", [0.5, 1.5])
    writer.add_bool("tokenizer.ggml.add_bos_token", False)
    writer.add_uint64("general.something", 1 << 40)
    writer.add_tensor("output_norm.weight", np.arange(7, dtype=np.float32))
    for name, (kind, content) in tensors.items():
        writer.add_tensor(name, content, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def small_model(path: Path) -> Path:
    """One layer: what is laid out, and what is not."""
    return write_gguf(
        path,
        {
            "token_embd.weight": (Types.Q5_0, blocks_of(Types.Q5_0, 40, 64)),
            "blk.0.attn_q.weight": (Types.Q5_0, blocks_of(Types.Q5_0, 16, 64, 1)),
            "blk.0.attn_k.weight": (Types.Q5_0, blocks_of(Types.Q5_0, 12, 64, 2)),
            "blk.0.ffn_gate.weight": (Types.Q5_0, blocks_of(Types.Q5_0, 32, 64, 3)),
            "blk.0.ffn_up.weight": (Types.Q5_0, blocks_of(Types.Q5_0, 32, 64, 4)),
            "blk.0.ffn_down.weight": (Types.Q6_K, blocks_of(Types.Q6_K, 64, 256, 5)),
            "blk.1.attn_v.weight": (Types.Q4_1, blocks_of(Types.Q4_1, 16, 64, 8)),
            "blk.1.ffn_up.weight": (Types.Q4_1, blocks_of(Types.Q4_1, 32, 64, 9)),
            "blk.0.ssm_conv1d.weight": (Types.Q5_0, blocks_of(Types.Q5_0, 64, 32, 6)),
            "output.weight": (Types.Q8_0, blocks_of(Types.Q8_0, 40, 64, 7)),
        },
    )
