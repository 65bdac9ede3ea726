"""Weight files: what PyTorch wrote is read without it, and nothing in a file is executed."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from visavis.bundles.formats.safetensors import read_safetensors, write_safetensors
from visavis.bundles.formats.torch_checkpoint import read_checkpoint
from visavis.bundles.formats.weights import Checked, read_weights, state_dict
from visavis.serving.errors import InvalidInputError, ModelStoreError

FILES = Path(__file__).parents[1] / "families" / "files"
BASE = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize("name", ["zip.pt", "old.pt"])
def test_both_layouts_of_pytorch_are_read(name: str) -> None:
    found = read_checkpoint(FILES / name)
    state = found["state"]
    for key, expected in {
        "whole": BASE, "part": BASE[1:, 2:4], "turned": BASE.T, "half": BASE.astype(np.float16),
        "bfloat16": BASE, "parameter": BASE, "scalar": np.array(3), "mask": BASE > 3,
        "empty": np.zeros((0, 3), np.float32),
    }.items():  # fmt: skip
        assert state[key].dtype == expected.dtype, key
        assert np.array_equal(state[key], expected), key
    assert found["epoch"] == 7
    assert "settings" not in found  # neither a tensor nor a plain value
    assert found["optimiser"]["param_groups"][0]["lr"] == 0.1


def zipped(path: Path, payload: bytes, **more: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", payload)
        for name, content in more.items():
            archive.writestr(f"archive/{name}", content)
    return path


RAN: list[str] = []


class Malicious:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return run, ("rm -rf",)


def run(program: str) -> str:
    RAN.append(program)
    return program


def test_a_checkpoint_that_would_run_a_program_does_not(tmp_path: Path) -> None:
    payload = pickle.dumps({"w": Malicious(), "n": 1}, protocol=2)
    assert read_checkpoint(zipped(tmp_path / "evil.pt", payload)) == {"n": 1}
    assert not RAN
    pickle.loads(payload)  # so the payload is a real one
    assert RAN == ["rm -rf"]


def tensor_pickle(offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """A checkpoint of one tensor over a storage of 4 floats, written opcode by opcode."""
    out = io.BytesIO()
    out.write(b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n(")
    out.write(b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000")
    out.write(b"X\x03\x00\x00\x00cpuK\x04tQ")
    out.write(pickle.dumps(offset, 2)[2:-1])
    for numbers in (shape, strides):
        out.write(b"(" + b"".join(pickle.dumps(n, 2)[2:-1] for n in numbers) + b"t")
    out.write(b"\x89NtRs.")
    return out.getvalue()


def test_a_view_beyond_its_storage_is_refused(tmp_path: Path) -> None:
    block = {"data/0": np.arange(4, dtype=np.float32).tobytes()}
    fine = zipped(tmp_path / "a.pt", tensor_pickle(1, (3,), (1,)), **block)
    assert read_checkpoint(fine)["w"].tolist() == [1, 2, 3]
    for offset, shape, strides in ((1, (4,), (1,)), (0, (2, 2), (100, 1)), (-1, (2,), (1,))):
        path = zipped(tmp_path / "b.pt", tensor_pickle(offset, shape, strides), **block)
        with pytest.raises(InvalidInputError, match="beyond its storage"):
            read_checkpoint(path)
    with pytest.raises(InvalidInputError, match="beyond its storage"):
        read_checkpoint(zipped(tmp_path / "c.pt", tensor_pickle(3, (2,), (-1,)), **block))


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda path: path.write_bytes(b"no weights at all"), "no PyTorch checkpoint"),
        (lambda path: path.write_bytes(b""), "no PyTorch checkpoint"),
        (lambda path: path.write_bytes((FILES / "old.pt").read_bytes()[:-9]), "cut short"),
        (lambda path: path.write_bytes((FILES / "zip.pt").read_bytes()[:900]), "checkpoint"),
        (lambda path: zipped(path, pickle.dumps([1, 2], 2)), "holds no weights by name"),
        (lambda path: zipped(path, b"\x80\x02}.", **{"code/a.py": b""}), "TorchScript program"),
    ],
)
def test_what_is_no_checkpoint_is_told(tmp_path: Path, write: Any, said: str) -> None:
    write(tmp_path / "weights.pt")
    with pytest.raises(InvalidInputError, match=said):
        read_weights(tmp_path / "weights.pt")


def test_safetensors_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    tensors = {
        "a": BASE, "half": BASE.astype(np.float16), "turned": BASE.T, "one": np.array(3, np.int16),
        "none": np.zeros((0, 2), np.float32),
    }  # fmt: skip
    write_safetensors(path, tensors)
    found = read_safetensors(path)
    assert list(found) == list(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert np.array_equal(found[name], tensor)


def safetensors(path: Path, header: Any, content: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content)
    return path


def test_bfloat16_is_widened(tmp_path: Path) -> None:
    values = np.array([1.5, -2.0], np.float32)
    content = (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    header = {"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}, "__metadata__": {}}
    found = read_safetensors(safetensors(tmp_path / "w.safetensors", header, content))
    assert found["w"].dtype == np.float32
    assert found["w"].tolist() == [1.5, -2.0]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (b"{", "no safetensors file"),
        (b"[]", "no safetensors file"),
        ({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 80]}}, "cut short: w lies"),
        ({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, "does not fill"),
        ({"w": {"dtype": "F4", "shape": [2], "data_offsets": [0, 8]}}, "type F4"),
        ({"w": {"shape": [2]}}, "not described"),
    ],
)
def test_damaged_safetensors_are_told(tmp_path: Path, header: Any, said: str) -> None:
    path = safetensors(tmp_path / "w.safetensors", header, bytes(8))
    with pytest.raises(ModelStoreError, match=said):
        read_safetensors(path)
    with pytest.raises(InvalidInputError, match=said):
        read_weights(path)
    (tmp_path / "x.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(InvalidInputError, match="cut short"):
        read_weights(tmp_path / "x.safetensors")


def test_numpy_archives_and_strangers(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", a=BASE)
    assert np.array_equal(read_weights(tmp_path / "w.npz")["a"], BASE)
    np.savez(tmp_path / "o.npz", a=np.array([{}], dtype=object))
    with pytest.raises(InvalidInputError, match="plain arrays"):
        read_weights(tmp_path / "o.npz")
    with pytest.raises(InvalidInputError, match=r"not from \.h5"):
        read_weights(tmp_path / "w.h5")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_weights(tmp_path / "absent.pt")


def test_the_weights_are_found_inside_a_checkpoint() -> None:
    assert list(state_dict({"generator": {"a": BASE}, "b": BASE}, "generator")) == ["a"]
    assert list(state_dict({"a": BASE, "epoch": 3}, "generator")) == ["a"]
    assert list(state_dict({"module.a": BASE, "module.b": BASE})) == ["a", "b"]


def test_a_tensor_that_does_not_fit_is_named() -> None:
    tensors = Checked({"conv.weight": BASE}, "w.pt")
    assert tensors.take("conv.weight", 4, None) is BASE
    with pytest.raises(InvalidInputError, match=r"shape \[4, 6\]; \[4, 7\] is needed"):
        tensors.take("conv.weight", 4, 7)
    with pytest.raises(InvalidInputError, match=r"no tensor deep\.weight: .*conv\.weight"):
        tensors.take("deep.weight")
