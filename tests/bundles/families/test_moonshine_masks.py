"""Moonshine's encoder with masks: sounds of other lengths come out of a run as they do alone."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from services.asr.hearing.moonshine import Moonshine
from services.asr.hearing.transcript import Transcript
from tests.bundles.compile.speech import sound
from tests.rows import together
from visavis.bundles.compile.float_graphs import graph_like_its_plan
from visavis.bundles.moonshine_eight_bit import graph_to_load
from visavis.engine import EngineOptions, eight_bit_products, open_engine
from visavis.engine.rows import RowAsk

HEARD = [sound("two_cities_01")[:24_000], sound("jfk")[:20_000], sound("austen_0880")[:16_000]]


def test_texts_of_other_lengths_share_a_run_and_read_as_alone(
    bundle: Callable[[str], Path],
) -> None:
    folder = bundle("moonshine-tiny-en")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    options = EngineOptions(graph=graph_like_its_plan)
    with (
        open_engine(folder / "encoder.onnx", options=options) as encoder,
        open_engine(folder / "decoder.onnx", options=options) as decoder,
    ):
        recogniser = Moonshine(encoder, decoder, tokenizer)
        texts, rows = together([_said(recogniser.steps(pcm)) for pcm in HEARD])
        assert rows == [3]
        assert texts == [[recogniser.transcribe(pcm)] for pcm in HEARD]
        sizes = [len(pcm) for pcm in HEARD]
        padded = np.stack([np.pad(pcm, (0, max(sizes) - len(pcm))) for pcm in HEARD])
        lengths = np.array(sizes)[:, None]
        states = encoder.infer({"input_values": padded, "lengths": lengths})["last_hidden_state"]
        for pcm, size, made in zip(HEARD, sizes, states, strict=True):
            one = {"input_values": pcm[None], "lengths": np.array([[size]])}
            (apart,) = encoder.infer(one)["last_hidden_state"]
            assert np.abs(made[: len(apart)] - apart).max() < 1e-4


def _said(
    steps: Generator[RowAsk, Any, Transcript],
) -> Generator[RowAsk | Transcript, Any, None]:
    yield (yield from steps)


def test_a_single_row_is_what_it_is_as_published(bundle: Callable[[str], Path]) -> None:
    path = bundle("moonshine-tiny-en") / "encoder.onnx"
    pcm = HEARD[1][None]
    with (
        open_engine(path) as published,
        open_engine(path, options=EngineOptions(graph=graph_like_its_plan)) as masked,
    ):
        before = published.infer({"input_values": pcm})["last_hidden_state"]
        lengths = np.array([[pcm.shape[1]]])
        after = masked.infer({"input_values": pcm, "lengths": lengths})["last_hidden_state"]
    assert after.shape == before.shape and np.abs(after - before).max() < 1e-4


@pytest.mark.parametrize("clipped", [False, True])
def test_a_cpu_shares_runs_of_floats_and_none_of_bytes(
    bundle: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, clipped: bool
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(eight_bit_products, "are_clipped", lambda: clipped)
    path = bundle("moonshine-tiny-en") / "encoder.onnx"
    with open_engine(path, options=EngineOptions(graph=graph_to_load)) as encoder:
        assert ("lengths" in encoder.inputs) == clipped
