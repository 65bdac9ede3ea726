"""Bundles that were made on one machine, for all machines of a stack.

The operator puts one into JetStream's object store; a service whose settings name a bundle that is
not on its disk has it from there as it starts. In the bucket the manifest of the bundle joe is the
object `joe`, and each of its files is `joe/<sha256>`. The manifest comes last and goes first: what
it names is there.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from visavis.bundles.store import bundle_path
from visavis.bundles.store.catalogue import (
    MANIFEST_FILE,
    default_catalog,
    default_model_dir,
    pullable_catalog,
)
from visavis.bundles.store.installed import (
    State,
    as_store_error,
    free_bytes,
    locked,
    new_staging,
    require_space,
    swap_in,
    sweep,
    verify_files,
)
from visavis.bundles.store.manifest import BundleManifest, MadeFile, parse_manifest
from visavis.serving.errors import BusError, ModelStoreError, UnknownNameError
from visavis.serving.lifetime.starting import busy_with
from visavis.wire.bucket import Bucket, NotWholeError, digest_of, told_digest
from visavis.wire.bus import Bus
from visavis.wire.subjects import BUNDLES

log = logging.getLogger(__name__)

Told = Callable[[int, int], object]
"""Takes the bytes that were carried so far, and those in all."""

LARGEST_FILE_BYTES = 8 << 30
_MANIFEST_BYTES = 1 << 20
_LOOK_EVERY_S = 0.5


async def share_bundle(
    bus: Bus, name: str, model_dir: Path | None = None, told: Told = lambda done, total: None
) -> bool:
    """Put a bundle that was made here where all machines have it from. False: it is there already.

    What is there is read, so that what is damaged on the bus is carried again. What was shared
    under this name before goes. Raises ModelStoreError for a bundle that is not here, was not made
    or is damaged, AtCapacityError for a file of more than LARGEST_FILE_BYTES, NoStoreError,
    NoRoomError, BusError; what was carried by then is not carried again.
    """
    folder, catalog = default_model_dir(model_dir), default_catalog(model_dir)
    files = _made_files(catalog.manifest(name))
    standing = await asyncio.to_thread(verify_files, catalog.manifest(name), folder / name)
    if standing.state is not State.READY:
        raise ModelStoreError(f"bundle {name} is damaged: {'; '.join(standing.problems)}")
    text = catalog.text(name).encode()
    bucket = Bucket(bus, BUNDLES, LARGEST_FILE_BYTES)
    there = await bucket.index()
    wanted = {_object(name, file): file for file in files}
    missing = {
        at: file
        for at, file in wanted.items()
        if there.get(at) != _digest(file) or not await _is_whole(bucket, at)
    }
    if not missing and there.get(name) == digest_of(text) and await _is_whole(bucket, name):
        return False
    done, total = 0, sum(file.size_bytes for file in missing.values())

    def count(size_bytes: int) -> None:
        nonlocal done
        done += size_bytes
        told(done, total)

    for at, file in missing.items():
        await bucket.put_file(at, folder / name / file.path, count)
    await Bucket(bus, BUNDLES, _MANIFEST_BYTES).put(name, text)
    await _delete(bucket, set(_objects_of(name, there)) - wanted.keys() - {name})
    return True


async def unshare_bundle(bus: Bus, name: str) -> None:
    """Take it back: machines that have it keep it. Raises UnknownNameError, BusError."""
    bucket = Bucket(bus, BUNDLES, LARGEST_FILE_BYTES)
    there = await bucket.index()
    found = _objects_of(name, there)
    if not found:
        shared = sorted(at for at, digest in there.items() if digest and "/" not in at)
        known = f"shared are {', '.join(shared)}" if shared else "none is"
        raise UnknownNameError(f"no bundle {name!r} is shared; {known}")
    await _delete(bucket, found)


async def bring_shared(
    bus: Bus | None, names: Iterable[str], model_dir: Path | None = None
) -> None:
    """Have each of these bundles be on this machine, from the bus where it is not.

    The bus is not asked for one that is here, by its files' sizes, nor for one that is pulled.
    Raises ModelStoreError for one that cannot be had, with what to do.
    """
    folder, pulled = default_model_dir(model_dir), pullable_catalog().names
    for name in dict.fromkeys(names):
        if name in pulled:
            continue
        try:
            bundle_path(name, folder)
        except ModelStoreError as error:
            problem = str(error).rstrip(".")
            if bus is None:
                raise ModelStoreError(
                    f"{problem}. {_hint(name)}, and have this service use that bus (nats_url)"
                ) from error
            content = await _shared_manifest(bus, name, problem)
            await _bring(bus, name, content, folder)


def _made_files(manifest: BundleManifest) -> Sequence[MadeFile]:
    if manifest.made is not None:
        return manifest.made.files
    name = manifest.name
    if manifest.shipped is not None:
        raise ModelStoreError(f"bundle {name} is part of the product: there is nothing to share")
    raise ModelStoreError(
        f"bundle {name} need not be shared: each machine pulls it by its sha256, with "
        f"`visavis models pull {name}`"
    )


def _object(name: str, file: MadeFile) -> str:
    return f"{name}/{file.sha256}"


def _objects_of(name: str, there: Mapping[str, str]) -> list[str]:
    """What is in the bucket of a bundle, its manifest first."""
    found = [at for at, digest in there.items() if digest and at.partition("/")[0] == name]
    return sorted(found)


def _digest(file: MadeFile) -> str:
    return told_digest(bytes.fromhex(file.sha256))


async def _delete(bucket: Bucket, objects: Collection[str]) -> None:
    for at in sorted(objects):
        await bucket.delete(at, overwrite=False)


def _hint(name: str) -> str:
    return f"If it was made on another machine, say there `visavis bundle share {name} --nats URL`"


async def _is_whole(bucket: Bucket, at: str) -> bool:
    """Whether it reads as it was put: the index tells its digest, whatever has become of it."""
    try:
        async for _ in bucket.pieces(at):
            pass
    except NotWholeError:
        return False
    return True


async def _shared_manifest(bus: Bus, name: str, problem: str) -> bytes:
    """Raises ModelStoreError that begins with the problem why it is asked for."""
    try:
        content = await Bucket(bus, BUNDLES, _MANIFEST_BYTES).get(name)
    except BusError as error:
        raise ModelStoreError(f"{problem}. The bus could not be asked for it ({error})") from error
    if content is None:
        raise ModelStoreError(f"{problem}. Nobody has shared it over the bus. {_hint(name)}")
    return content


def _read(content: bytes, name: str) -> BundleManifest:
    """Raises ModelStoreError where it is none, or has files that would lie elsewhere."""
    where = f"the manifest of {name} on the bus"
    try:
        manifest = parse_manifest(content.decode(), where)
    except UnicodeDecodeError as error:
        raise ModelStoreError(f"{where} is no text") from error
    if manifest.name != name or manifest.made is None:
        raise ModelStoreError(f"{where} is of {manifest.name!r}, or of a bundle that is pulled")
    return manifest


async def _bring(bus: Bus, name: str, content: bytes, folder: Path) -> None:
    manifest = _read(content, name)
    try:
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        with ExitStack() as stack:
            await _alone(stack, folder, name)
            sweep(folder)
            if _is_here(name, folder):
                return  # another process was faster
            if (folder / name).exists() and name not in default_catalog(folder).names:
                raise ModelStoreError(f"{folder / name} is there and is no bundle: move it away")
            require_space(folder, manifest.size_bytes, free_bytes)
            staging = new_staging(folder, name)
            stack.callback(shutil.rmtree, staging, ignore_errors=True)
            try:
                await _fetch(bus, manifest, staging)
            except NotWholeError as error:
                raise ModelStoreError(
                    f"bundle {name} could not be fetched: {error}. {_hint(name)}"
                ) from error
            (staging / MANIFEST_FILE).write_bytes(content)
            swap_in(staging, folder / name)
    except OSError as error:
        raise as_store_error(error, folder) from error


def _is_here(name: str, folder: Path) -> bool:
    try:
        return bundle_path(name, folder).is_dir()
    except ModelStoreError:
        return False


async def _alone(stack: ExitStack, folder: Path, name: str) -> None:
    """Hold the folder against other processes, as `stack` lasts; the event loop goes on."""
    while True:
        try:
            stack.enter_context(locked(folder, lambda line: None, timeout_s=0))
            return
        except ModelStoreError:
            busy_with(f"waiting for another process that fetches weights, to have {name}")
            await asyncio.sleep(_LOOK_EVERY_S)


async def _fetch(bus: Bus, manifest: BundleManifest, staging: Path) -> None:
    """Fill the folder. Raises ModelStoreError where a file is not the one that was shared."""
    name, total = manifest.name, manifest.size_bytes
    done = tenths = 0
    log.info("%s: is fetched from the bus, %.0f MB", name, total / 1e6)
    for file in _made_files(manifest):
        path, pieces = staging / file.path, Bucket(bus, BUNDLES, file.size_bytes)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as written:
            async for piece in pieces.pieces(_object(name, file)):
                await asyncio.to_thread(written.write, piece)
                done += len(piece)
                busy_with(f"fetching {name}: {done / total:.0%}")
                if done * 10 // total > tenths:
                    tenths = done * 10 // total
                    log.info("%s: %.0f of %.0f MB", name, done / 1e6, total / 1e6)
    standing = await asyncio.to_thread(verify_files, manifest, staging)
    if standing.state is not State.READY:
        raise ModelStoreError(
            f"bundle {name} on the bus is not what its manifest says "
            f"({'; '.join(standing.problems)}). {_hint(name)}"
        )
    log.info("%s: is here, and every file has its sha256", name)
