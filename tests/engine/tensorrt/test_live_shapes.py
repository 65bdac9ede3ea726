"""The recognisers' longest and shortest requests, held against what their plans take.

The engines compute nothing: they check every shape against the recipe, as the plan would.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from services.asr.hearing import moonshine, whisper
from visavis.bundles.store import recipes_of
from visavis.bundles.store.recipe import PlanRecipe
from visavis.engine.base import Engine, Resident, Tensors, TensorSpec

Bundle = Callable[[str], Path]
FLOAT, LONG = np.dtype(np.float32), np.dtype(np.int64)
LONGEST = np.zeros(moonshine.MAX_SAMPLES, np.float32)
DRAFT = "seven extraordinary hippopotamuses " * 100


class Planned(Engine):
    """The plans of one file. Its decoder says what it was given, and then number after number."""

    keeps_tensors = False
    backend = "planned"

    def __init__(self, bundle: str, file: str, words: int = 0) -> None:
        super().__init__(Path(bundle) / file, device="cuda:0", threads=1)
        self.recipes = {r.name: r for r in recipes_of(bundle) if r.graph == file}
        self.words = words
        self.asked: dict[str, list[Mapping[str, tuple[int, ...]]]] = {n: [] for n in self.recipes}
        self.said = 1000

    def _load(self) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
        inputs, outputs = {}, {}
        for recipe in self.recipes.values():
            for name, allowed in recipe.profiles[0].shapes.items():
                low, high = allowed.min, allowed.max
                free = [n if n == m else None for n, m in zip(low, high, strict=True)]
                kind = LONG if name in ("input_ids", "tokens") else FLOAT
                inputs[name] = TensorSpec(name, kind, tuple(free))
                if name.startswith("past_"):
                    made = name.replace("past_key_values", "present").replace("past_", "present_")
                    outputs[made] = inputs[name]
        outputs["logits"] = TensorSpec("logits", FLOAT, (None, None, self.words or None))
        if "past_key_values.0.decoder.key" in inputs:
            switch = np.dtype(np.bool_)
            inputs["use_cache_branch"] = TensorSpec("use_cache_branch", switch, (1,))
        for name in ("last_hidden_state", *self._crossing()):
            outputs[name] = TensorSpec(name, FLOAT, (None,))
        return inputs, outputs

    def _crossing(self) -> list[str]:
        whole = recipes_of(self.model.parent.name)
        shapes = next(r for r in whole if r.name == "decoder-next").profiles[0].shapes
        return [name for name in shapes if name.startswith("cross_")]

    def _check(self, inputs: Tensors) -> None:
        """Ranks and dtypes are for the real engines; here the recipes decide."""

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        shapes = {name: tuple(tensor.shape) for name, tensor in inputs.items()}
        recipe = self._recipe(shapes)
        recipe.check({name: shapes[name] for name in recipe.profiles[0].shapes})
        self.asked[recipe.name].append(shapes)
        return self._answer(inputs, shapes)

    def _recipe(self, shapes: Mapping[str, tuple[int, ...]]) -> PlanRecipe:
        if len(self.recipes) == 1:
            return next(iter(self.recipes.values()))
        empty = any(0 in shape for name, shape in shapes.items() if name.startswith("past_"))
        return self.recipes["decoder-first" if empty else "decoder-next"]

    def _answer(self, inputs: Tensors, shapes: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        if "input_values" in shapes:
            width = self._width("encoder_hidden_states")
            frames = ((shapes["input_values"][1] - 127) // 64 + 1 - 7) // 3 + 1
            return {"last_hidden_state": np.zeros((1, (frames - 3) // 2 + 1, width), np.float32)}
        if "mel" in shapes:
            at = shapes["mel"][2] // 2
            sizes = recipes_of(self.model.parent.name)[1].profiles[0].shapes
            return {n: np.zeros(_with(sizes[n].min, at), np.float32) for n in self._crossing()}
        tokens = inputs["input_ids" if "input_ids" in shapes else "tokens"]
        assert isinstance(tokens, np.ndarray)
        out: dict[str, NDArray[Any]] = {}
        for name, shape in shapes.items():
            if name.startswith("past_"):
                made = name.replace("past_key_values", "present").replace("past_", "present_")
                grown = list(shape)
                if ".encoder." not in name:
                    grown[2] += tokens.shape[1]
                elif not shape[2]:
                    grown[2] = shapes["encoder_hidden_states"][1]
                out[made] = np.zeros(grown, np.float32)
        self.said += 1
        following = [*tokens[0, 1:], self.said]
        out["logits"] = np.zeros((1, len(following), self.words), np.float32)
        out["logits"][0, range(len(following)), following] = 1
        return out

    def _width(self, name: str) -> int:
        (first,) = [r for r in recipes_of(self.model.parent.name) if r.name == "decoder-first"]
        return first.profiles[0].shapes[name].min[-1]

    def _infer_resident(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        return dict(self._infer(inputs))

    def _close(self) -> None:
        pass


def _with(shape: tuple[int, ...], at: int) -> tuple[int, ...]:
    """`shape` of the keys or values of a sound, for so many positions."""
    return tuple(at if size == 76 else size for size in shape)


@pytest.mark.parametrize("name", ["moonshine-tiny-en", "moonshine-base-en"])
def test_moonshine_asks_for_nothing_that_its_plans_do_not_take(bundle: Bundle, name: str) -> None:
    tokenizer = Tokenizer.from_file(str(bundle(name) / "tokenizer.json"))
    with Planned(name, "encoder.onnx") as encoder, Planned(name, "decoder.onnx", 32768) as decoder:
        ears = moonshine.Moonshine(encoder, decoder, tokenizer)
        for draft in ("", DRAFT):
            ears.transcribe(LONGEST, "en", draft)
        for draft in ("", "Mm-hmm.", DRAFT):
            ears.transcribe(LONGEST[:2000], "en", draft)
        first = max(s["input_ids"][1] for s in decoder.asked["decoder-first"])
        past = "past_key_values.0.decoder.key"
        longest = max(s[past][2] for s in decoder.asked["decoder-next"])
    assert (first, longest) == (200, 198), "a draft of all, and a text of all word by word"


def test_whisper_asks_for_nothing_that_its_plans_do_not_take(bundle: Bundle) -> None:
    name = "whisper-base"
    tokenizer = Tokenizer.from_file(str(bundle(name) / "tokenizer.json"))
    with Planned(name, "encoder.onnx") as encoder, Planned(name, "decoder.onnx", 51865) as decoder:
        ears = whisper.Whisper(encoder, decoder, tokenizer)
        for heard, draft in ((LONGEST, ""), (LONGEST, DRAFT * 2), (LONGEST[:1], "嗯")):
            ears.transcribe(heard, "zh", draft)
        ears.transcribe(LONGEST[:1], "")
        asked = [s["tokens"][1] for s in decoder.asked["decoder-first"]]
    assert (min(asked), max(asked)) == (1, 439), "a language to be told, and a draft of all"
