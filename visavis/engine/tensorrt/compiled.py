"""The backends `tensorrt` and `tensorrt_rtx`: a model by its plans, one or several.

TensorRT takes neither branches nor lengths that are computed on the way, so some networks are
compiled in parts; what happens between these happens here, behind the inputs and outputs of the
whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from visavis.engine.base import DeviceTensor, Engine, EngineOptions, Resident, Tensors, TensorSpec
from visavis.engine.tensorrt.bindings.selection import check_device_name
from visavis.engine.tensorrt.engine import TensorRTEngine
from visavis.engine.tensorrt.runner import PlanMemory
from visavis.engine.tensorrt.source import sources_of
from visavis.serving.errors import EngineLoadError, UnfitShapeError

Specs = dict[str, TensorSpec]


class Arrangement(Protocol):
    """Loaded plans as one network."""

    inputs: Specs
    outputs: Specs

    def run(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        """Outputs for `inputs`; those named in `resident` stay on the device."""
        ...


class Whole:
    """A network that is one plan."""

    def __init__(self, plan: Engine) -> None:
        self.inputs, self.outputs = dict(plan.inputs), dict(plan.outputs)
        self._plan = plan

    def run(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        return self._plan.infer_resident(inputs, resident)


class Steps:
    """A decoder with a cache: one plan for the first step, when it is empty, one for the next ones.

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
        plan = self._first if is_first else self._following
        given = {name: inputs[name] for name in plan.inputs}
        made = plan.infer_resident(given, [name for name in resident if name in plan.outputs])
        unchanged = {
            present: inputs[name]
            for name in self._past
            if (present := _present(name)) in self.outputs and present not in made
        }
        return {**made, **_where_asked(unchanged, resident)}


class LengthRegulated:
    """Text to states, every state repeated by its duration on the host, states to voice.

    Of several rows: a text goes as far as its ids are not negative, a voice as its durations.
    """

    def __init__(self, text: Engine, voice: Engine) -> None:
        self._text, self._voice = text, voice
        self.inputs: Specs = dict(text.inputs)
        self.outputs: Specs = {**voice.outputs, _DURATIONS: text.outputs[_DURATIONS]}

    def run(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        made = self._text.infer(inputs)
        durations = made.pop(_DURATIONS)
        rows = [
            {name: np.repeat(states[row], lasting, axis=1) for name, states in made.items()}
            for row, lasting in enumerate(durations)
        ]
        wanted = [name for name in resident if name in self._voice.outputs]
        try:
            voices = self._voice.infer_resident(_side_by_side(rows), wanted)
        except UnfitShapeError:
            if len(rows) == 1:
                raise
            # Together they are more than the plan takes at once.
            voices = self._one_by_one(rows)
        return {**voices, _DURATIONS: durations}

    def _one_by_one(self, rows: Sequence[dict[str, NDArray[Any]]]) -> dict[str, Resident]:
        made = [self._voice.infer(_side_by_side([row])) for row in rows]
        return {name: _stacked([voice[name][0] for voice in made]) for name in self._voice.outputs}


def _side_by_side(rows: Sequence[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """States [channels, U] of each row as those of all, and the mask that tells how far each goes:
    [B, 1, longest] float32, 1 within."""
    given = {name: _stacked([row[name] for row in rows]) for name in rows[0]}
    sizes = [next(iter(row.values())).shape[-1] for row in rows]
    within = np.arange(max(sizes)) < np.array(sizes)[:, None, None]
    return {**given, _MASK: within.astype(np.float32)}


def _stacked(rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """[B, ..., longest], with zeros behind the ends of shorter rows."""
    longest = max(row.shape[-1] for row in rows)
    room = [(0, 0)] * (rows[0].ndim - 1)
    return np.stack([np.pad(row, [*room, (0, longest - row.shape[-1])]) for row in rows])


_MASK = "mask"
_DURATIONS = "durations"
_SWITCH = TensorSpec("use_cache_branch", np.dtype(np.bool_), (1,))


def arrange(model: str, plans: Mapping[str, Engine]) -> Arrangement:
    """The network that loaded `plans`, by the names of their recipes, are together.

    Raises EngineLoadError for parts that nobody knows how to join.
    """
    if len(plans) == 1:
        return Whole(*plans.values())
    parts = set(plans)
    if parts == {"decoder-first", "decoder-next"}:
        return Steps(plans["decoder-first"], plans["decoder-next"])
    if parts == {"text", "voice"}:
        return LengthRegulated(plans["text"], plans["voice"])
    raise EngineLoadError(f"{model}: no way is known to join the plans {', '.join(sorted(parts))}")


def _present(past: str) -> str:
    """Output that becomes the input `past` of the next step."""
    return past.replace("past_key_values.", "present.").replace("past_", "present_")


def _where_asked(tensors: Tensors, resident: Collection[str]) -> dict[str, Resident]:
    return {
        name: tensor if name in resident or isinstance(tensor, np.ndarray) else _fetched(tensor)
        for name, tensor in tensors.items()
    }


def _fetched(tensor: DeviceTensor) -> Resident:
    return tensor.to_host()


class CompiledEngine(Engine):
    """A model of a bundle, or a `.plan` file, on a GPU. Its plans are loaded together."""

    keeps_tensors = True

    def __init__(
        self,
        model: Path,
        *,
        device: str,
        backend: str = "tensorrt",
        options: EngineOptions | None = None,
    ) -> None:
        super().__init__(model, device=device, threads=1)
        self.backend = backend
        self._options = options or EngineOptions()
        self._plans: dict[str, TensorRTEngine] = {}
        self._whole: Arrangement | None = None

    @property
    def plans(self) -> dict[str, TensorRTEngine]:
        """By the recipe's name; empty before `load`."""
        return dict(self._plans)

    def memory(self) -> dict[str, PlanMemory]:
        """By the recipe's name, of the plans that are on the GPU now."""
        told = {name: plan.memory() for name, plan in self._plans.items()}
        return {name: memory for name, memory in told.items() if memory is not None}

    def _load(self) -> tuple[Specs, Specs]:
        check_device_name(self.device)
        if self.device == "cpu":
            raise EngineLoadError(f"device: {self.backend} runs on cuda:N, not on cpu")
        sources = sources_of(self.model, self._options.plans)
        with ExitStack() as undo:
            for name, source in sources.items():
                plan = TensorRTEngine(
                    self.model,
                    device=self.device,
                    source=source,
                    backend=self.backend,
                    options=self._options,
                )
                plan.load()
                undo.callback(plan.close)
                self._plans[name] = plan
            self._whole = arrange(self.model.name, self._plans)
            undo.pop_all()
        return self._whole.inputs, self._whole.outputs

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        outputs = self._infer_resident(inputs, ())
        return {name: out for name, out in outputs.items() if isinstance(out, np.ndarray)}

    def _infer_resident(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        assert self._whole is not None
        return self._whole.run(inputs, resident)

    def _close(self) -> None:
        self._whole = None
        plans, self._plans = self._plans, {}
        for plan in plans.values():
            plan.close()
