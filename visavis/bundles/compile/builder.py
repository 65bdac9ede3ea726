"""Build a bundle's plans: graph, compiler and cache put together."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import EncodeError

from visavis.bundles.compile.build_progress import Cancelled, OnProgress, Progress, stop_if
from visavis.bundles.compile.compiler import Plan, compile_plan, read_layers
from visavis.bundles.compile.graphs import graph_for
from visavis.bundles.compile.plans.cache import CachedPlan, PlanCache, Wanted
from visavis.bundles.compile.plans.findings import refuse_failed
from visavis.bundles.compile.plans.freshness import PlanRequest, source_digest
from visavis.bundles.compile.plans.record import (
    COMPILER_REVISION,
    LayerInfo,
    PlanKey,
    PlanRecord,
    profiles_digest,
)
from visavis.bundles.compile.targets import Target, flavour_of, is_rtx
from visavis.bundles.store.recipe import PlanRecipe, Precision, ProfileSpec
from visavis.serving.errors import PlanError, PlanRefusedError

MakeGraph = Callable[[Path, PlanRecipe, Precision, Cancelled | None], onnx.ModelProto]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Built:
    """A plan that is ready, and whether it had to be compiled for that."""

    cached: CachedPlan
    compiled: bool


class PlanBuilder:
    """Builds for one compiler and one target into one cache.

    `trt` is the module tensorrt or tensorrt_rtx. `make_graph` makes the ONNX to compile.
    """

    def __init__(
        self, trt: Any, target: Target, cache: PlanCache, *, make_graph: MakeGraph = graph_for
    ) -> None:
        self._trt = trt
        self._target = target
        self._cache = cache
        self._make_graph = make_graph
        self._compiler = flavour_of(trt)

    def cached(self, request: PlanRequest) -> CachedPlan | None:
        """The whole, fresh plan of `request` if there is one. Needs neither graph nor GPU.

        Raises PlanRefusedError for one that was built before its precision was found wanting.
        """
        found = self._cache.find(self._wanted(request))
        if found is not None:
            self._refuse_failed(request, found.record.key.onnx_sha256)
        return found

    def build(
        self,
        request: PlanRequest,
        *,
        on_progress: OnProgress | None = None,
        cancelled: Cancelled | None = None,
        force: bool = False,
    ) -> Built:
        """The plan of `request` out of the cache, else compiled and kept.

        Raises PlanError, PlanRefusedError where the precision was measured and is not good
        enough, and PlanCancelledError once `cancelled` says so: nothing is left then.
        Where it may be called from: see `compile_plan`.
        """
        wanted = self._wanted(request)
        name = f"{request.bundle}.{request.recipe.name}.{request.precision}"
        with self._cache.locked(name, cancelled):
            if not force and (found := self._cache.find(wanted)) is not None:
                self._refuse_failed(request, found.record.key.onnx_sha256)
                return Built(found, compiled=False)
            _tell(on_progress, "making the graph")
            graph = self.graph(request, cancelled)
            stop_if(cancelled)
            key = self._key(request, graph)
            self._refuse_failed(request, key.onnx_sha256)
            if not force:
                same = self._cache.find_key(
                    request.bundle, request.recipe.name, request.precision, key
                )
                if same is not None:
                    return Built(self._cache.amend(same, wanted.source_sha256), compiled=False)
            plan = self.compile(graph, request, on_progress=on_progress, cancelled=cancelled)
            return Built(self._keep(request, wanted, key, plan), compiled=True)

    def graph(self, request: PlanRequest, cancelled: Cancelled | None = None) -> bytes:
        """The ONNX of `request`, serialised; the same graph gives the same bytes.

        Raises PlanError where it cannot be made or written, PlanCancelledError.
        """
        try:
            model = self._make_graph(request.folder, request.recipe, request.precision, cancelled)
            stop_if(cancelled)
            return model.SerializeToString(deterministic=True)
        except ImportError as error:
            raise PlanError(f"{request}: {error.name} is not installed") from error
        except (EncodeError, ValueError) as error:
            raise PlanError(f"{request}: the graph cannot be written: {error}") from error

    def compile(
        self,
        graph: bytes,
        request: PlanRequest,
        *,
        profiles: Sequence[ProfileSpec] | None = None,
        on_progress: OnProgress | None = None,
        cancelled: Cancelled | None = None,
    ) -> Plan:
        """Compile `graph` without looking into the cache; `profiles` instead of all of them."""
        timings = None if is_rtx(self._trt) else self._timings()
        plan = compile_plan(
            self._trt,
            graph,
            request.recipe.profiles if profiles is None else profiles,
            workspace_bytes=request.workspace_bytes,
            timing_cache=timings,
            on_progress=on_progress,
            cancelled=cancelled,
            target=self._target,
        )
        if plan.timing_cache is not None:
            self._cache.store_timing_cache(self._compiler, self._target.name, plan.timing_cache)
        return plan

    def layers(self, graph: bytes) -> list[LayerInfo]:
        """Every layer of `graph` as the compiler reads it."""
        return list(read_layers(self._trt, graph))

    def refusal(self, request: PlanRequest, graph: bytes) -> str:
        """Why a plan of `graph` is not built for use even if it compiles; "" where it is."""
        try:
            self._refuse_failed(request, hashlib.sha256(graph).hexdigest())
        except PlanRefusedError as error:
            return str(error)
        return ""

    def _refuse_failed(self, request: PlanRequest, onnx_sha256: str) -> None:
        refuse_failed(
            request.bundle,
            request.recipe.name,
            request.precision,
            onnx_sha256,
            self._cache.folder,
        )

    def _timings(self) -> bytes | None:
        return self._cache.timing_cache(self._compiler, self._target.name)

    def _wanted(self, request: PlanRequest) -> Wanted:
        return Wanted(
            bundle=request.bundle,
            plan=request.recipe.name,
            precision=request.precision,
            compiler=self._compiler,
            target=self._target.name,
            workspace_bytes=request.workspace_bytes,
            source_sha256=source_digest(request),
            revision=COMPILER_REVISION,
        )

    def _key(self, request: PlanRequest, graph: bytes) -> PlanKey:
        return PlanKey(
            compiler=self._compiler,
            target=self._target.name,
            onnx_sha256=hashlib.sha256(graph).hexdigest(),
            profiles_sha256=profiles_digest(request.recipe.profiles),
            workspace_bytes=request.workspace_bytes,
        )

    def _keep(self, request: PlanRequest, wanted: Wanted, key: PlanKey, plan: Plan) -> CachedPlan:
        record = PlanRecord(
            bundle=request.bundle,
            plan=request.recipe.name,
            precision=request.precision,
            key=key,
            source_sha256=wanted.source_sha256,
            plan_sha256=hashlib.sha256(plan.content).hexdigest(),
            size_bytes=len(plan.content),
            profiles=request.recipe.profiles,
            inputs=plan.inputs,
            outputs=plan.outputs,
            layers=count_layers(plan.layers),
            memory=plan.memory,
            build_s=plan.build_s,
            built_at=datetime.now(UTC),
            warnings=plan.warnings,
        )
        _log.info("plan built", extra={"plan": str(request), "size_bytes": record.size_bytes})
        return self._cache.store(record, plan.content)


def count_layers(layers: Sequence[LayerInfo]) -> dict[str, int]:
    """`KIND DTYPE` -> how many, the most frequent first."""
    return dict(Counter(f"{layer.kind} {layer.dtype}".strip() for layer in layers).most_common())


def _tell(on_progress: OnProgress | None, phase: str) -> None:
    if on_progress is not None:
        on_progress(Progress(phase, 0.0))
