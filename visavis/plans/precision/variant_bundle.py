"""A folder of bundles in which one has other graphs: what a service is told to load instead."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import onnx

from visavis.models.installed import RECORD_NAME, BundleRecord, FileRecord


@contextmanager
def variant_model_dir(bundle_dir: Path, files: Mapping[str, onnx.ModelProto]) -> Iterator[Path]:
    """Model folder like the one `bundle_dir` lies in, with `files` instead of the bundle's own.

    Everything else is linked. The folder is gone when the context ends.
    """
    with tempfile.TemporaryDirectory(prefix="visavis-variant-") as folder:
        root = Path(folder)
        for other in bundle_dir.parent.iterdir():
            if other != bundle_dir and other.is_dir():
                (root / other.name).symlink_to(other.resolve(), target_is_directory=True)
        variant = root / bundle_dir.name
        variant.mkdir()
        for path in bundle_dir.iterdir():
            if path.name not in files and path.name != RECORD_NAME:
                (variant / path.name).symlink_to(path.resolve())
        for name, model in files.items():
            onnx.save(model, variant / name)
        record = BundleRecord.model_validate_json((bundle_dir / RECORD_NAME).read_bytes())
        (variant / RECORD_NAME).write_text(_adapted(record, variant, files).model_dump_json())
        yield root


def _adapted(record: BundleRecord, folder: Path, changed: Mapping[str, object]) -> BundleRecord:
    """The record with the sizes of the new files.

    Digests stay: they say which release the bundle is, and only `visavis models verify` reads
    the files again.
    """

    def sized(files: dict[str, FileRecord]) -> dict[str, FileRecord]:
        return {
            path: file.model_copy(update={"size_bytes": (folder / path).stat().st_size})
            if path in changed
            else file
            for path, file in files.items()
        }

    return record.model_copy(
        update={"files": sized(record.files), "prepared": sized(record.prepared)}
    )
