"""Which networks are asked of a Triton server, and what it calls them.

A server pays where several processes ask one GPU for the same network, and only for networks of
which requests share a batch, no state between runs and one shape, and which cost more than the way
there. So it is the turn detector and the painter of mouths. The network of the lips takes a CPU
0.7 ms for a request, and asking for it takes as long. The decoders of the recognisers would send
their caches there and back for every word piece (Moonshine base: two megabytes for a second of
speech); the voices and the encoders get another length with every request; THA3's poser is handed a
character of 4 MB each time; voice activity is over in less than the way there takes.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from visavis.bundles.store.catalogue import default_catalog
from visavis.bundles.store.lookup import bundle_of
from visavis.bundles.store.manifest import BundleManifest
from visavis.serving.errors import ModelStoreError

_SHARED_TASKS = ("turn", "face_mouth")
"""Tasks of bundles whose networks are worth the way."""


def network_name(model: Path) -> str:
    """The server's name for a bundle's ONNX file: `BUNDLE.FILE`, such as `whisper-base.encoder`."""
    return f"{bundle_of(model)}.{model.stem}"


def is_shared(model: Path, named: Collection[str] = ()) -> bool:
    """Whether this network is asked of the server. named: exactly these are; empty: those that are
    worth it, but for what a manifest keeps on the CPU.
    """
    if named:
        return network_name(model) in named
    try:
        manifest = default_catalog(model.parent.parent).manifest(bundle_of(model))
    except ModelStoreError:
        return False
    return model.name in shared_graphs(manifest)


def shared_graphs(manifest: BundleManifest) -> list[str]:
    """Names of the ONNX files of a bundle that are worth the way."""
    if manifest.task not in _SHARED_TASKS:
        return []
    return [plan.graph for plan in manifest.plans if plan.graph not in manifest.cpu_only]


def largest_batch(manifest: BundleManifest, graph: str) -> int:
    """The largest batch that the bundle's plans of `graph` are made for; 1 where none is told."""
    ranges = (
        allowed
        for plan in manifest.plans
        if plan.graph == graph
        for profile in plan.profiles
        for allowed in profile.shapes.values()
    )
    return max((allowed.max[0] for allowed in ranges), default=1)
