"""Builds the real PyCUDA where there is no GPU, runs our binding through it, writes what it offers.

    python -m tests.engine.tensorrt.pycuda_check.build FOLDER

takes some three minutes, a C++ compiler and a package index, so `make test` reads the file that
it left, `offer.json`. PyCUDA has no wheels: it is compiled against NVIDIA's header packages and
linked with a driver of our own, `host_driver.c`, whose device is the host's memory.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

VERSION = "2026.1"
OFFER = Path(__file__).parent / "offer.json"
_ROOT = Path(__file__).parents[4]
_HEADERS = (
    *("nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-cuda-nvcc", "nvidia-cuda-cccl"),
    *("nvidia-cuda-profiler-api", "nvidia-curand"),
)
_PARAMETER = re.compile(r"\((\w+)\)(\w+)")
_FUNCTION = re.compile(r"cu[A-Z]\w+")


def offered(module: Any) -> dict[str, Any]:
    """Public functions of `pycuda.driver` by their overloads, classes by their members."""
    told: dict[str, Any] = {}
    for name, thing in vars(module).items():
        if name.startswith("_") or inspect.ismodule(thing):
            continue
        if inspect.isclass(thing):
            members = {m: getattr(thing, m) for m in dir(thing) if m[0] != "_" or m == "__init__"}
            told[name] = {m: overloads(m, member) for m, member in members.items()}
        elif callable(thing):
            told[name] = overloads(name, thing)
    return told


def written(driver: dict[str, Any]) -> str:
    """As JSON, with each name of the driver on a line of its own."""
    told = (f"  {json.dumps(n)}: {json.dumps(driver[n], sort_keys=True)}" for n in sorted(driver))
    lines = ("{", f' "version": "{VERSION}",', ' "driver": {', ",\n".join(told), " }", "}", "")
    return "\n".join(lines)


def overloads(name: str, thing: Any) -> Any:
    """Parameters of each overload as "type name", and "type name=" for those that may be left out,
    which Boost.Python writes in brackets."""
    lines = re.findall(rf"^{re.escape(name)}\((.*)\) -> ", thing.__doc__ or "", re.MULTILINE)
    if not callable(thing) or not lines:
        return "value"
    return [
        [
            f"{kind} {named}{mark}"
            for part, mark in zip(line.partition("[")[::2], ("", "="), strict=True)
            for kind, named in _PARAMETER.findall(part)
        ]
        for line in lines
    ]


def check() -> None:
    """Every call of our binding, through PyCUDA, with data that must arrive."""
    from visavis.engine.tensorrt.bindings.device import CudaError
    from visavis.engine.tensorrt.bindings.pycuda import PyCuda

    binding = PyCuda()
    (info,) = binding.devices()
    assert (info.name, info.sm) == ("Host", (9, 0)) and info.uuid.startswith("GPU-0001"), info
    device = binding.open(info)
    with device.current():
        stream, start, end = device.create_stream(), device.create_event(), device.create_event()
        here, there = device.alloc_pinned(64), device.alloc_pinned(64)
        first, second = device.alloc(64), device.alloc(64)
        here.array[:] = range(64)
        device.record(start, stream)
        device.copy_to_device(first, here, 64, stream)
        device.copy_on_device(second, first, 64, stream)
        device.clear(second, 8, stream)
        device.copy_to_host(there, second, 64, stream)
        device.record(end, stream)
        device.synchronize(stream)
        assert there.array.tolist() == [*[0] * 8, *range(8, 64)]
        assert device.elapsed_s(start, end) == 0.0025
        assert device.memory().total_bytes == info.total_bytes
        try:
            device.alloc(2**40)
        except CudaError as error:
            assert error.out_of_memory and error.call == "cuMemAlloc", error
        else:
            raise AssertionError("so much memory is not there")
        for memory in (here, there):
            device.free_pinned(memory)
        for address in (first, second):
            device.free(address)
        for event in (start, end):
            device.destroy_event(event)
        device.destroy_stream(stream)


def build(folder: Path) -> dict[str, str]:
    """PyCUDA installed in `folder`; the environment variables that let it be imported."""
    packages, libraries, wheels = folder / "packages", folder / "lib", folder / "wheels"
    libraries.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    _run(*pip, "install", "--no-deps", "--target", folder / "headers", *_HEADERS)
    (root,) = (folder / "headers" / "nvidia").glob("cu1*")
    _driver(libraries, _declared(root / "include"))
    for library in (root / "lib").glob("libcurand.so*"):
        (libraries / "libcurand.so").symlink_to(library)
        (libraries / library.name).symlink_to(library)
    environ = {
        **os.environ,
        "CUDA_ROOT": str(root),
        "CPATH": str(root / "include"),
        "LIBRARY_PATH": str(libraries),
        "CFLAGS": "-O0",
        "LD_LIBRARY_PATH": str(libraries),
        "PYTHONPATH": f"{packages}:{_ROOT}",
    }
    source = f"pycuda=={VERSION}"
    _run(*pip, "wheel", "--no-deps", "--wheel-dir", wheels, source, environ=environ)
    (wheel,) = wheels.glob("pycuda-*.whl")
    _run(*pip, "install", "--target", packages, wheel, environ=environ)
    return environ


def _declared(include: Path) -> set[str]:
    """Every function of the driver, under each name that the headers have for it."""
    text = (include / "cuda.h").read_text() + (include / "cudaProfiler.h").read_text()
    names = set(re.findall(r"CUDAAPI\s+(cu\w+)\s*\(", text))
    names |= set(re.findall(r"#define\s+cu\w+\s+(cu\w+_v\d+)\b", text))
    return {name for name in names if _FUNCTION.fullmatch(name)}


def _driver(folder: Path, declared: set[str]) -> None:
    """libcuda.so.1 out of host_driver.c; what is not in it says CUDA_ERROR_NOT_SUPPORTED."""
    own = Path(__file__).parent / "host_driver.c"
    there = set(re.findall(r"^int (cu\w+)\(", own.read_text(), re.MULTILINE))
    rest = folder / "rest.c"
    missing = sorted(declared - there)
    rest.write_text("".join(f"int {name}(void) {{ return 801; }}\n" for name in missing))
    made = folder / "libcuda.so.1"
    _run("cc", "-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", "-o", made, own, rest)
    (folder / "libcuda.so").unlink(missing_ok=True)
    (folder / "libcuda.so").symlink_to(made.name)


def _run(*command: object, environ: dict[str, str] | None = None) -> None:
    subprocess.run([str(part) for part in command], env=environ, check=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--inside"]:
        from pycuda import driver

        check()
        OFFER.write_text(written(offered(driver)))
    else:
        inside = build(Path(sys.argv[1]).resolve())
        _run(sys.executable, "-m", __spec__.name, "--inside", environ=inside)
        sys.stdout.write(f"our binding runs through PyCUDA {VERSION}; {OFFER} is written\n")
