"""A GGUF file written anew: what changes, what does not, what is refused."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from tests.bundles.gguf.small_gguf import Types, blocks_of, small_model, write_gguf
from visavis.bundles.gguf.header import GgufError, TensorInfo, read_header
from visavis.bundles.gguf.layout import GgmlType, rewrite, to_lay_out, written_bytes


def rewritten(source: Path, target: Path) -> dict[str, GgmlType]:
    with source.open("rb") as file, target.open("wb") as written:
        header = read_header(file)
        types = dict(to_lay_out(header.tensors))
        rewrite(file, header, written, types, on_fraction=lambda _: None, cancelled=lambda: False)
        size = written_bytes(header, types, source.stat().st_size)
    assert size < target.stat().st_size
    return types


def fields_of(reader: gguf.GGUFReader) -> dict[str, object]:
    return {name: field.contents() for name, field in reader.fields.items()}


def test_a_rewritten_file_holds_the_same_but_for_what_was_laid_out(tmp_path: Path) -> None:
    source = small_model(tmp_path / "a.gguf")
    types = rewritten(source, tmp_path / "b.gguf")
    old, new = gguf.GGUFReader(source), gguf.GGUFReader(tmp_path / "b.gguf")
    assert fields_of(new) == fields_of(old)
    assert [tensor.name for tensor in new.tensors] == [tensor.name for tensor in old.tensors]
    for before, after in zip(old.tensors, new.tensors, strict=True):
        assert after.shape.tolist() == before.shape.tolist()
        if before.name not in types:
            assert after.tensor_type == before.tensor_type
            np.testing.assert_array_equal(after.data, before.data)
            continue
        assert after.tensor_type == types[before.name]
        was = gguf.quants.dequantize(before.data, before.tensor_type)
        now = gguf.quants.dequantize(after.data, after.tensor_type)
        assert np.square(now - was).mean() < 0.02 * np.square(was).mean()


def test_what_becomes_of_each_type_and_five_bits_are_held_exactly_but_in_the_wide_matrices(
    tmp_path: Path,
) -> None:
    source = small_model(tmp_path / "a.gguf")
    types = rewritten(source, tmp_path / "b.gguf")
    assert types == {
        "blk.0.attn_q.weight": GgmlType.Q8_0,
        "blk.0.ffn_gate.weight": GgmlType.IQ4_NL,
        "blk.0.ffn_up.weight": GgmlType.IQ4_NL,
        "blk.1.attn_v.weight": GgmlType.Q8_0,
        "blk.1.ffn_up.weight": GgmlType.Q8_0,
    }
    was, now = (
        next(t for t in gguf.GGUFReader(path).tensors if t.name == "blk.0.attn_q.weight")
        for path in (source, tmp_path / "b.gguf")
    )
    np.testing.assert_array_equal(
        gguf.quants.dequantize(now.data, now.tensor_type),
        gguf.quants.dequantize(was.data, was.tensor_type),
    )


@pytest.mark.parametrize(
    "tensor",
    [
        TensorInfo("blk.0.ffn_up.weight", (64, 32), Types.Q4_K, 0),  # has a fast kernel
        TensorInfo("blk.0.ffn_up.weight", (64, 32), Types.Q4_0, 0),  # has a fast kernel
        TensorInfo("blk.0.ffn_up.weight", (64, 32), 999, 0),  # a type of tomorrow
        TensorInfo("blk.0.ffn_up.weight", (64, 12), GgmlType.Q5_0, 0),  # not eight rows
        TensorInfo("blk.0.ffn_up_exps.weight", (64, 32, 4), GgmlType.Q5_0, 0),
        TensorInfo("blk.0.ssm_conv1d.weight", (64, 32), GgmlType.Q5_0, 0),
        TensorInfo("token_embd.weight", (64, 32), GgmlType.Q5_0, 0),  # only looked up
    ],
    ids=lambda tensor: f"{tensor.name} {tensor.type} {tensor.shape}",
)
def test_what_stays_as_published(tensor: TensorInfo) -> None:
    output = TensorInfo("output.weight", (64, 32), Types.F16, 0)
    assert not to_lay_out([tensor, output])


@pytest.mark.parametrize("cut", [0, 3, 20, 60, 200, 700])
def test_a_header_that_is_cut_off_is_refused(tmp_path: Path, cut: int) -> None:
    whole = small_model(tmp_path / "a.gguf").read_bytes()
    (tmp_path / "b.gguf").write_bytes(whole[:cut])
    with (tmp_path / "b.gguf").open("rb") as file, pytest.raises(GgufError, match="not a GGUF"):
        read_header(file)


def test_weights_that_are_cut_off_are_refused(tmp_path: Path) -> None:
    whole = small_model(tmp_path / "a.gguf").read_bytes()
    (tmp_path / "b.gguf").write_bytes(whole[:-4000])
    with (tmp_path / "b.gguf").open("rb") as file:
        header = read_header(file)
        types = to_lay_out(header.tensors)
        with pytest.raises(GgufError, match=r"ends before the weights of"):
            written_bytes(header, types, len(whole) - 4000)


def test_an_alignment_of_the_files_own_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(128)
    writer.add_tensor("output.weight", blocks_of(Types.Q5_0, 8, 64), raw_dtype=Types.Q5_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    rewritten(path, tmp_path / "b.gguf")
    read = gguf.GGUFReader(tmp_path / "b.gguf")
    assert read.alignment == 128
    assert read.data_offset % 128 == 0


def test_a_file_of_an_unknown_architecture_is_rewritten_alike(tmp_path: Path) -> None:
    path = write_gguf(
        tmp_path / "a.gguf",
        {"blk.3.attn_qkv.weight": (Types.Q5_0, blocks_of(Types.Q5_0, 8, 32))},
        architecture="of-tomorrow",
    )
    assert rewritten(path, tmp_path / "b.gguf")
