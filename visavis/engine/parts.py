"""A network in parts: what is between them happens here, behind the whole's inputs and outputs.

TensorRT takes neither branches nor lengths that are computed on the way, so some networks are
compiled in parts, and run in the same parts by ONNX Runtime on a GPU.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from visavis.engine.base import Engine, Resident, Tensors, TensorSpec, host_array
from visavis.serving.errors import EngineLoadError, UnfitShapeError

Specs = dict[str, TensorSpec]


class Arrangement(Protocol):
    """Loaded parts as one network."""

    inputs: Specs
    outputs: Specs

    def run(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        """Outputs for `inputs`; those named in `resident` stay on the device."""
        ...


class Whole:
    """A network that is one part."""

    def __init__(self, part: Engine) -> None:
        self.inputs, self.outputs = dict(part.inputs), dict(part.outputs)
        self._part = part

    def run(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        return self._part.infer_resident(inputs, resident)


class Steps:
    """A decoder with a cache: one part for the first step, when it is empty, one for the next ones.

    Keys and values of the sound, which only the first step makes, are handed through.
    """

    def __init__(self, first: Engine, following: Engine) -> None:
        self._first, self._following = first, following
        self.inputs: Specs = {**first.inputs, **following.inputs}
        self.outputs: Specs = {**following.outputs, **first.outputs}
        self._past = [name for name in following.inputs if name.startswith("past_")]
        if any(name.startswith("past_key_values.") for name in self._past):
            # Of the published graph, which branches on it; here the cache itself tells.
            self.inputs[_SWITCH.name] = _SWITCH

    def run(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        is_first = any(0 in inputs[name].shape for name in self._past)
        part = self._first if is_first else self._following
        given = {name: inputs[name] for name in part.inputs}
        made = part.infer_resident(given, [name for name in resident if name in part.outputs])
        unchanged = {
            present: inputs[name] if present in resident else host_array(inputs[name])
            for name in self._past
            if (present := _present(name)) in self.outputs and present not in made
        }
        return {**made, **unchanged}


class LengthRegulated:
    """Text to states, every state repeated by its duration on the host, states to voice.

    Of several rows: a text goes as far as its ids are not negative, a voice as its durations. Both
    see few lengths: a GPU chooses its kernels, and keeps its graphs, for each one. All that is made
    is in host memory.
    """

    def __init__(self, text: Engine, voice: Engine) -> None:
        self._text, self._voice = text, voice
        self.inputs: Specs = dict(text.inputs)
        self.outputs: Specs = {**voice.outputs, _DURATIONS: text.outputs[_DURATIONS]}

    def run(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        ids = host_array(inputs[_IDS])
        letters = ids.shape[1]
        padded = _wider(ids, _on_grid(letters, _IDS_GRID), _NO_ID)
        made = self._text.infer({**inputs, _IDS: padded})
        durations = made.pop(_DURATIONS)
        rows = [
            {name: np.repeat(states[row], lasting, axis=1) for name, states in made.items()}
            for row, lasting in enumerate(durations)
        ]
        try:
            voices = self._spoken(rows)
        except UnfitShapeError:
            if len(rows) == 1:
                raise
            # Together they are more than a plan takes at once.
            apart = [self._spoken([row]) for row in rows]
            voices = {name: _stacked([voice[name][0] for voice in apart]) for name in apart[0]}
        return {**voices, _DURATIONS: durations[:, :letters]}

    def _spoken(self, rows: Sequence[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
        sizes = [next(iter(row.values())).shape[-1] for row in rows]
        longest = max(sizes)
        padded = _on_grid(longest, _STATES_GRID)
        given = {name: _wider(_stacked([row[name] for row in rows]), padded, 0) for name in rows[0]}
        within = np.arange(padded) < np.array(sizes)[:, None, None]
        made = self._voice.infer({**given, _MASK: within.astype(np.float32)})
        return {name: out[..., : out.shape[-1] // padded * longest] for name, out in made.items()}


def _on_grid(size: int, grid: int) -> int:
    return -(-size // grid) * grid


def _wider(rows: NDArray[Any], size: int, filling: int) -> NDArray[Any]:
    """`rows` with a last dimension of `size`."""
    room = [(0, 0)] * (rows.ndim - 1)
    return np.pad(rows, [*room, (0, size - rows.shape[-1])], constant_values=filling)


def _stacked(rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """[B, ..., longest], with zeros behind the ends of shorter rows."""
    longest = max(row.shape[-1] for row in rows)
    return np.stack([_wider(row, longest, 0) for row in rows])


_IDS, _NO_ID = "ids", -1
# What plans take at most, and usually, is on these grids (catalog/hibari-en.toml).
_IDS_GRID, _STATES_GRID = 16, 32
_MASK = "mask"
_DURATIONS = "durations"
_SWITCH = TensorSpec("use_cache_branch", np.dtype(np.bool_), (1,))


def arrange(model: str, parts: Mapping[str, Engine]) -> Arrangement:
    """The network that loaded `parts`, by the names of their recipes, are together.

    Raises EngineLoadError for parts that nobody knows how to join.
    """
    if len(parts) == 1:
        return Whole(*parts.values())
    if parts.keys() == {"decoder-first", "decoder-next"}:
        return Steps(parts["decoder-first"], parts["decoder-next"])
    if parts.keys() == {"text", "voice"}:
        return LengthRegulated(parts["text"], parts["voice"])
    raise EngineLoadError(f"{model}: no way is known to join the parts {', '.join(sorted(parts))}")


def _present(past: str) -> str:
    """Output that becomes the input `past` of the next step."""
    return past.replace("past_key_values.", "present.").replace("past_", "present_")


class EngineOfParts(Engine):
    """A model whose parts are loaded together and run as one."""

    keeps_tensors = True

    def __init__(self, model: Path, *, device: str, threads: int) -> None:
        super().__init__(model, device=device, threads=threads)
        self._parts: dict[str, Engine] = {}
        self._whole: Arrangement | None = None

    @property
    def parts(self) -> Mapping[str, Engine]:
        """By the names of their recipes; empty before `load`."""
        return self._parts

    @abstractmethod
    def _open_parts(self) -> Mapping[str, Engine]:
        """By the names of their recipes, not yet loaded. Raises EngineLoadError."""

    def _load(self) -> tuple[Specs, Specs]:
        parts = self._open_parts()
        with ExitStack() as undo:
            for part in parts.values():
                undo.enter_context(part)
            self._whole = arrange(self.model.name, parts)
            undo.pop_all()
        self._parts = dict(parts)
        return self._whole.inputs, self._whole.outputs

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        outputs = self._infer_resident(inputs, ())
        return {name: out for name, out in outputs.items() if isinstance(out, np.ndarray)}

    def _infer_resident(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        assert self._whole is not None
        return self._whole.run(inputs, resident)

    def _close(self) -> None:
        self._whole = None
        parts, self._parts = self._parts, {}
        for part in parts.values():
            part.close()
