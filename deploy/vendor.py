"""Other people's modules that the page draws heads with, as files of its own.

`python -m deploy.vendor` says whether they are what they were pinned as. With `--fetch` npm brings
them anew: each package is held against its digest, what is needed of it is made small, bare names
of imports become paths, and the digests of the results are written beside them.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

VENDOR = Path(__file__).parents[1] / "gateway" / "static" / "vendor"
DIGESTS = VENDOR / "SHA256SUMS"
_ESBUILD = "esbuild@0.25.12"
"""Makes modules small; the same version gives the same bytes."""


@dataclass(frozen=True, slots=True)
class Package:
    """One npm package, pinned. files: what is taken of it, and where it goes below VENDOR."""

    name: str
    version: str
    sha256: str
    files: dict[str, str]


PACKAGES = (
    Package(
        "three",
        "0.187.0",
        "ff540832ded0cfe919764d24a3d88f3e2a05f23303f876423e4f893841e90728",
        {
            "build/three.core.js": "three/three.core.min.js",
            "build/three.module.js": "three/three.module.min.js",
            "examples/jsm/loaders/GLTFLoader.js": "three/GLTFLoader.js",
            "examples/jsm/utils/BufferGeometryUtils.js": "three/BufferGeometryUtils.js",
            "examples/jsm/utils/SkeletonUtils.js": "three/SkeletonUtils.js",
            "LICENSE": "three/LICENSE",
        },
    ),
    Package(
        "@pixiv/three-vrm",
        "3.5.5",
        "6f0102f987bc8abc9b9e78ef5b3259ea9f0dc51e30bf51d32aea6218394ea755",
        {
            "lib/three-vrm.module.min.js": "three-vrm/three-vrm.module.min.js",
            "LICENSE": "three-vrm/LICENSE",
        },
    ),
)
_IMPORTS = {
    "three": "three/three.module.min.js",
    "./three.core.js": "three/three.core.min.js",
    "../utils/BufferGeometryUtils.js": "three/BufferGeometryUtils.js",
    "../utils/SkeletonUtils.js": "three/SkeletonUtils.js",
}
_FROM = re.compile(r"""(\bfrom\s*|\bimport\s*)(["'])([^"'\n]+)\2""")


def changed() -> list[str]:
    """Files that are not what they were pinned as, or are not there."""
    pinned = [line.split(maxsplit=1) for line in DIGESTS.read_text().splitlines()]
    return [name for digest, name in pinned if _digest_of(VENDOR / name) != digest]


def fetch() -> None:
    """Bring all packages, and write what is needed of them. Raises ValueError for other bytes."""
    targets = sorted(target for package in PACKAGES for target in package.files.values())
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for package in PACKAGES:
            _take(package, work)
    DIGESTS.write_text("".join(f"{_digest_of(VENDOR / t)}  {t}\n" for t in targets))


def _take(package: Package, work: Path) -> None:
    wanted = f"{package.name}@{package.version}"
    told = subprocess.run(
        ["npm", "pack", "--silent", wanted], cwd=work, check=True, capture_output=True, text=True
    )
    packed = work / told.stdout.split()[-1]
    if _digest_of(packed) != package.sha256:
        raise ValueError(f"{wanted} is not what was pinned: {_digest_of(packed)}")
    with tarfile.open(packed) as archive:
        for source, target in package.files.items():
            member = archive.extractfile(f"package/{source}")
            if member is None:
                raise ValueError(f"{wanted} has no file {source}")
            content = member.read()
            if target.endswith(".js"):
                small = content if ".min." in source else _small(content, work)
                content = _with_paths(small.decode(), target).encode()
            path = VENDOR / target
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _small(module: bytes, work: Path) -> bytes:
    command = ["npx", "--yes", _ESBUILD, "--minify", "--format=esm", "--legal-comments=inline"]
    return subprocess.run(command, cwd=work, input=module, check=True, capture_output=True).stdout


def _with_paths(module: str, target: str) -> str:
    """A browser finds modules by path: an import map would have to stand in the page itself."""
    depth = "../" * target.count("/")

    def path(found: re.Match[str]) -> str:
        known = _IMPORTS.get(found[3])
        return f"{found[1]}{found[2]}{depth}{known}{found[2]}" if known else found[0]

    return _FROM.sub(path, module)


def _digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fetch", action="store_true", help="bring them anew, by npm")
    if parser.parse_args().fetch:
        fetch()
    wrong = changed()
    sys.exit(f"not what was pinned: {', '.join(wrong)}" if wrong else None)


if __name__ == "__main__":
    main()
