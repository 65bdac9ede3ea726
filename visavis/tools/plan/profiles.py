"""What the services cost: figures, each with where it comes from and whether it was measured.

Pure: `profile_of` reads what a TOML file came to. The file that is shipped is `profiles.toml`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from visavis.serving.errors import InvalidInputError
from visavis.serving.settings import SERVICES as STAGES

SERVICES = (*STAGES, "gateway", "nats")
ESTIMATE = "_estimate"

Curve = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number and where it comes from. estimate: never measured on what it stands for."""

    name: str
    value: float
    source: str
    estimate: bool = False

    @property
    def told_name(self) -> str:
        """An estimate says so in its name."""
        return self.name + ESTIMATE * self.estimate


@dataclass(frozen=True, slots=True)
class Turn:
    """How long what no stage computes takes, and how long questions and answers are. Seconds."""

    notice_s: float
    """The question's end to the pause being told."""
    end_wait_s: float
    """The question's end to its being certain: no answer leaves before."""
    spread_s: float
    """Standard deviation of what a lone visitor waits."""
    overhead_s: float
    transport_s: float
    question_s: float
    answer_s: float


@dataclass(frozen=True, slots=True)
class ServiceCost:
    """What one service takes. Figures that a service does not have are 0."""

    service: str
    device: str = "cpu"
    """cpu or gpu: where its networks run."""
    memory_bytes: float = 0.0
    """Of a replica without sessions, on its device."""
    session_bytes: float = 0.0
    host_bytes: float = 0.0
    """Main memory of a replica whose networks are on a GPU."""
    base_cores: float = 0.0
    """Of a process without any session."""
    cores_talking: float = 0.0
    cores_idle: float = 0.0
    final_s: float = 0.0
    work_s: float = 0.0
    first_token_s: float = 0.0
    """Of a question that was read while it was spoken."""
    read_s: float = 0.0
    """More, of one that was not: a typed question."""
    token_s: float = 0.0
    phrase_tokens: float = 0.0
    answer_tokens: float = 0.0
    phrase_s: float = 0.0
    phrases: float = 0.0
    frame_s: float = 0.0
    tail_s: float = 0.0
    process_cores: float = 0.0
    batches: Curve = ((1, 1.0),)

    def cores(self, duty: float) -> float:
        """Processor time of one session, seconds a second."""
        return duty * self.cores_talking + (1.0 - duty) * self.cores_idle


@dataclass(frozen=True, slots=True)
class Profile:
    """All that a plan assumes of the product. figures: by service, or "turn"."""

    name: str
    about: str
    turn: Turn
    costs: Mapping[str, ServiceCost]
    figures: Mapping[str, tuple[Figure, ...]]

    @property
    def estimates(self) -> list[str]:
        """Names of the figures that are none but estimates."""
        return [
            f"{s}.{f.told_name}" for s, known in self.figures.items() for f in known if f.estimate
        ]

    def sources(self) -> Iterator[tuple[str, Figure]]:
        for service, known in self.figures.items():
            for figure in known:
                yield service, figure

    @classmethod
    def of(cls, name: str, sections: Mapping[str, Any], where: str) -> Self:
        about = str(sections.get("about", ""))
        read = {
            part: _Section(sections.get(part, {}), f"{where} [{name}.{part}]")
            for part in ("turn", *SERVICES)
        }
        wanted = [field.name for field in fields(Turn)]
        turn = Turn(**{key: read["turn"].needed(key) for key in wanted})
        costs = {service: read[service].cost(service) for service in SERVICES}
        return cls(name, about, turn, costs, {p: tuple(s.figures) for p, s in read.items()})


class _Section:
    """One section of a profile while it is read; raises InvalidInputError with its place."""

    def __init__(self, told: Any, where: str) -> None:
        if not isinstance(told, Mapping):
            raise InvalidInputError(f"{where}: a table of figures is wanted")
        self._where = where
        self.device = str(told.get("device", "cpu"))
        if self.device not in ("cpu", "gpu"):
            raise InvalidInputError(f"{where}: device is {self.device!r}; cpu and gpu are known")
        self.batches = self._curve(told.get("batches", [[1, 1.0]]))
        plain = ("device", "batches", "batches_source")
        self.figures = [self._figure(k, v) for k, v in told.items() if k not in plain]
        if "batches" in told:
            source = str(told.get("batches_source", ""))
            estimate = "estimate" in source
            self.figures.append(Figure("batches", self.batches[-1][0], source, estimate))
        self._values = {figure.name: figure.value for figure in self.figures}

    def needed(self, name: str) -> float:
        if name not in self._values:
            raise InvalidInputError(f"{self._where}: {name} (or {name}{ESTIMATE}) is missing")
        return self._values[name]

    def cost(self, service: str) -> ServiceCost:
        for name in _NEEDED[service]:
            self.needed(name)
        known = {field.name for field in fields(ServiceCost)}
        strange = sorted(set(self._values) - known)
        if strange:
            raise InvalidInputError(f"{self._where}: unknown: {', '.join(strange)}")
        values = {name: v for name, v in self._values.items() if name != "batches"}
        return ServiceCost(service, self.device, **values, batches=self.batches)

    def _figure(self, key: str, told: Any) -> Figure:
        if not isinstance(told, Mapping) or set(told) != {"value", "source"}:
            raise InvalidInputError(
                f"{self._where}: write {key} = {{ value = 0.1, source = "
                '"where it was measured" }; a figure without a source is not taken'
            )
        value = told["value"]
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise InvalidInputError(f"{self._where}: {key} is {value!r}; 0 or more is allowed")
        if not str(told["source"]).strip():
            raise InvalidInputError(f"{self._where}: {key} has no source")
        name = key.removesuffix(ESTIMATE)
        return Figure(name, float(value), str(told["source"]), name != key)

    def _curve(self, told: Any) -> Curve:
        try:
            points = tuple((int(size), float(seconds)) for size, seconds in told)
        except (TypeError, ValueError):
            points = ()
        sizes, times = [p[0] for p in points], [p[1] for p in points]
        rising = sizes == sorted(set(sizes)) and times == sorted(times)
        if not points or sizes[0] != 1 or times[0] <= 0 or not rising:
            raise InvalidInputError(
                f"{self._where}: batches are pairs of requests and time, from one request "
                "upwards, and no run is shorter than a smaller one: [[1, 280], [4, 320]]"
            )
        return points


_COSTS = ("memory_bytes", "base_cores", "cores_talking", "cores_idle")
_NEEDED = {
    "asr": (*_COSTS, "final_s", "work_s"),
    "llm": (*_COSTS, "first_token_s", "read_s", "token_s", "phrase_tokens", "answer_tokens"),
    "tts": (*_COSTS, "phrase_s", "phrases"),
    "face": (*_COSTS, "frame_s", "tail_s"),
    "gateway": (*_COSTS, "process_cores"),
    "nats": _COSTS,
}


def profile_of(name: str, *files: tuple[str, Mapping[str, Any]]) -> Profile:
    """The profile of that name. files: name and content of each, later ones count more.

    Raises InvalidInputError where there is none, a figure of it is wrong, or the last file has
    nothing of it.
    """
    merged: dict[str, Any] = {}
    for _, content in files:
        merged = _over(merged, content)
    where = files[-1][0]
    if name not in merged:
        known = ", ".join(sorted(merged))
        raise InvalidInputError(f"{where}: there is no profile {name!r}; known are {known}")
    chain = [name]
    while (base := merged[chain[-1]].get("like")) is not None:
        if base not in merged or base in chain:
            raise InvalidInputError(f"{where} [{chain[-1]}]: like = {base!r} is no other profile")
        chain.append(base)
    if len(files) > 1 and not files[-1][1].keys() & {*chain}:
        told = ", ".join(sorted(files[-1][1])) or "no profile at all"
        raise InvalidInputError(
            f"{where}: has {told}, and nothing of the chosen one: {' or '.join(chain)}"
        )
    sections: dict[str, Any] = {}
    for link in reversed(chain):
        sections = _over(sections, merged[link])
    return Profile.of(name, sections, where)


def _over(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with what `top` says laid over it. A figure replaces its estimate, and the reverse."""
    merged = dict(base)
    for key, value in top.items():
        twin = key.removesuffix(ESTIMATE) if key.endswith(ESTIMATE) else key + ESTIMATE
        merged.pop(twin, None)
        below = merged.get(key)
        # A figure goes as a whole: no value may stand beside the source of another.
        if isinstance(value, Mapping) and isinstance(below, Mapping) and "value" not in value:
            value = _over(below, value)
        merged[key] = value
    return merged
