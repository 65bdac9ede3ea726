"""Block types of GGUF weights, held against llama.cpp's own library."""

from collections.abc import Callable

import gguf
import numpy as np
import pytest

from tests.bundles.gguf.small_gguf import Types, blocks_of
from visavis.bundles.gguf import block_types
from visavis.bundles.gguf.block_types import Floats


def by_gguf(kind: Types, blocks: np.ndarray) -> Floats:
    """[n, size] -> [n, weights], as llama.cpp's library reads it."""
    weights: Floats = gguf.quants.dequantize(blocks, kind)
    return weights


@pytest.mark.parametrize(
    ("kind", "read"),
    [(Types.Q5_0, block_types.dequantize_q5_0), (Types.Q4_1, block_types.dequantize_q4_1)],
)
def test_published_types_are_read_to_the_last_bit(
    kind: Types, read: Callable[[np.ndarray], Floats]
) -> None:
    _, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = blocks_of(kind, 64, 256).reshape(-1, block_bytes)
    np.testing.assert_array_equal(read(blocks), by_gguf(kind, blocks))


def test_q8_0_holds_weights_of_q4_1_to_a_small_part_of_their_step() -> None:
    blocks = blocks_of(Types.Q4_1, 64, 256).reshape(-1, block_types.Q4_1_BYTES)
    weights = by_gguf(Types.Q4_1, blocks)
    weights[0] = 0
    again = by_gguf(Types.Q8_0, block_types.quantize_q8_0(weights))
    largest = np.abs(weights).max(axis=1, keepdims=True)
    # Half a code of 127; the largest also suffers from the rounding of the half float scale.
    assert (np.abs(again - weights) <= largest * (0.5 / 127 + 2**-11) + 127 * 2**-25).all()


def test_iq4_nl_errs_less_than_sixteen_even_steps() -> None:
    weights = np.random.default_rng(3).normal(0, 0.02, (2000, 32)).astype(np.float32)
    ours = by_gguf(Types.IQ4_NL, block_types.quantize_iq4_nl(weights))
    even = by_gguf(Types.Q4_0, gguf.quants.quantize(weights, Types.Q4_0))
    error = np.square(ours - weights).mean()
    assert error < 0.0075 * np.square(weights).mean()
    assert error < 0.85 * np.square(even - weights).mean()


def test_iq4_nl_keeps_what_it_can_hold_exactly() -> None:
    weights = np.zeros((3, 32), np.float32)
    weights[1, :16] = block_types.STEPS * np.float32(0.25)
    weights[2, 5] = -3.0
    again = by_gguf(Types.IQ4_NL, block_types.quantize_iq4_nl(weights))
    np.testing.assert_array_equal(again[:2, :16], weights[:2, :16])
    assert again[2, 5] == pytest.approx(-3.0, rel=1e-3)
