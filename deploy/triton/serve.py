"""Runs the Triton server that the wheel nvidia-pytriton carries, without a container.

    python -m venv .venv-triton && .venv-triton/bin/pip install -r deploy/triton/requirements.txt
    visavis engine triton-repository models --platform python
    .venv-triton/bin/python deploy/triton/serve.py models

It needs that wheel and onnxruntime, and nothing of visavis. What follows `--` is the server's own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path


def main() -> None:
    """Become the server."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("repository", type=Path, help="what triton-repository wrote")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--grpc-port", type=int, default=8001)
    parser.add_argument("--http-port", type=int, default=8000)
    parser.add_argument("--metrics-port", type=int, default=8002)
    given, own = parser.parse_known_args()
    site = site_of_pytriton(parser)
    server = site / "pytriton" / "tritonserver" / "bin" / "tritonserver"
    arguments = [
        str(server),
        f"--model-repository={given.repository.resolve()}",
        f"--backend-directory={backends(site, Path(sys.prefix) / 'triton-backends')}",
        f"--backend-config=python,shm-region-prefix-name=triton-{given.grpc_port}",
        *(f"--{door}-address={given.host}" for door in ("grpc", "http", "metrics")),
        f"--grpc-port={given.grpc_port}",
        f"--http-port={given.http_port}",
        f"--metrics-port={given.metrics_port}",
        *(argument for argument in own if argument != "--"),
    ]
    os.execve(server, arguments, environment(site))


def site_of_pytriton(parser: argparse.ArgumentParser) -> Path:
    """The folder that the wheel was installed into. Exits where it was not."""
    spec = find_spec("pytriton")
    if spec is None or spec.origin is None:
        parser.error("nvidia-pytriton is not installed for this Python")
    return Path(spec.origin).parents[1]


def backends(site: Path, folder: Path) -> Path:
    """The wheel's Python backend with the stub for this Python, which it carries elsewhere."""
    carried = site / "pytriton" / "tritonserver"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = carried / "python_backend_stubs" / version / "triton_python_backend_stub"
    (folder / "python").mkdir(parents=True, exist_ok=True)
    for file in (*(carried / "backends" / "python").glob("*.*"), stub):
        if file.is_file():
            shutil.copy(file, folder / "python")
    return folder


def environment(site: Path) -> dict[str, str]:
    """Where the server finds its libraries, and the Python backend its Python."""
    libraries = [str(site / "nvidia_pytriton.libs"), sysconfig.get_config_var("LIBDIR")]
    places = {
        "LD_LIBRARY_PATH": libraries,
        "PATH": [str(Path(sys.executable).parent)],
        "PYTHONPATH": [str(site)],
    }
    return os.environ | {
        name: os.pathsep.join([*filter(None, first), *filter(None, [os.environ.get(name)])])
        for name, first in places.items()
    }


if __name__ == "__main__":
    main()
