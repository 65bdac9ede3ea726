"""Settings of the services that run the networks of bundles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import CliImplicitFlag

from visavis.bundles.kept_graph import KeptGraph
from visavis.bundles.store.lookup import family_of, kept_on_cpu
from visavis.bundles.triton.networks import is_shared, network_name
from visavis.engine import Engine, EngineOptions, TritonOptions, open_engine
from visavis.engine.tensorrt.source import PlanSource
from visavis.serving.settings import ServiceSettings


class EngineSettings(ServiceSettings):
    """Where and how the networks of a service run."""

    backend: Literal["auto", "onnxruntime", "tensorrt", "tensorrt_rtx", "triton"] = Field(
        "auto",
        description="auto: TensorRT on a GPU, else ONNX Runtime there, else on the CPU, "
        "each step down told in log, metrics and GetStatus; or one of them alone. triton: a Triton "
        "server for the networks that are worth it (docs/triton.md), auto for the others",
    )
    triton_url: str = Field(
        "127.0.0.1:8001",
        pattern=r"^[^/\s]+:\d+$",
        description="Address of the Triton server's gRPC, host:port",
    )
    triton_networks: str = Field(
        "",
        description="What Triton is asked for, with commas between, such as "
        "smart-turn.smart-turn; empty: what is worth it",
    )
    triton_in_flight: int = Field(
        16, ge=1, le=256, description="Requests for a network that Triton has at the same time"
    )
    triton_timeout_s: float = Field(
        1.0, gt=0, le=60, description="How long Triton's answer may come after it was needed"
    )
    require_device: CliImplicitFlag[bool] = Field(
        False, description="Refuse to start, rather than step down from the GPU to the CPU"
    )
    precision: Literal["auto", "fp32", "fp16", "int8"] = Field(
        "auto", description="Of compiled plans; auto: fp16 where the network takes it"
    )
    cuda_graphs: CliImplicitFlag[bool] = Field(
        True, description="Replay plans of frequent shapes as CUDA graphs"
    )
    idle_unload_s: float = Field(
        0.0, ge=0, description="Unload a plan from the GPU when unused for so long; 0: never"
    )

    def open_engine(self, model: Path) -> Engine:
        """Engine for `model`, not yet loaded; on the CPU where its bundle's manifest says so.

        Raises EngineLoadError for a device that is not there.
        """

        # Compiling needs much that a host without a GPU never does: it is imported when it is due.
        def plans(compiled: Path) -> Mapping[str, PlanSource]:
            from visavis.bundles.compile.sources import bundle_plans

            return bundle_plans(compiled, precision=self.precision)

        graph = self._graph_instead(model)
        options = EngineOptions(
            plans=plans,
            floats=_floats,
            kept=KeptGraph(model, graph.__name__ if graph else ""),
            graph=graph,
            require_device=self.require_device,
            cuda_graphs=self.cuda_graphs,
            idle_unload_s=self.idle_unload_s,
            triton=TritonOptions(
                url=self.triton_url,
                model=network_name(model),
                at_once=self.triton_in_flight,
                timeout_s=self.triton_timeout_s,
            ),
        )
        return open_engine(
            model,
            backend=self._backend_of(model),
            device=self.device,
            threads=self.threads,
            options=options,
        )

    def _graph_instead(self, model: Path) -> Callable[[Path], bytes] | None:
        """What writes the graph that is loaded instead of `model`."""
        family = family_of(model.parent)
        if family == "silero":
            return _lean_silero
        if family == "moonshine":
            return _lean_moonshine if self.device == "cpu" else _like_its_plan
        return None

    def _backend_of(self, model: Path) -> str:
        if self.backend == "triton":
            named = [name.strip() for name in self.triton_networks.split(",") if name.strip()]
            return "triton" if is_shared(model, named) else "auto"
        # The ladder knows what is never compiled.
        return "auto" if kept_on_cpu(model) else self.backend


# The package onnx, which writes graphs, is imported when it is due.


def _lean_silero(published: Path) -> bytes:
    from visavis.bundles.silero import graph_to_load

    return graph_to_load(published)


def _lean_moonshine(published: Path) -> bytes:
    from visavis.bundles.moonshine_eight_bit import graph_to_load

    return graph_to_load(published)


def _floats(published: Path) -> dict[str, Callable[[Path], bytes]]:
    from visavis.bundles.compile.float_graphs import graphs_like_its_plans

    return graphs_like_its_plans(published)


def _like_its_plan(published: Path) -> bytes:
    """What is stepped down to takes what the plan takes: rows with their lengths."""
    from visavis.bundles.compile.float_graphs import graph_like_its_plan

    return graph_like_its_plan(published)
