"""What a Triton server is given, and what it is asked for."""

import hashlib
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format, text_format
from typer.testing import CliRunner

from services.asr.settings import AsrSettings
from services.face.lips.audio_to_face import WEIGHTS
from visavis.bundles.compile.plans.cache import PlanCache
from visavis.bundles.compile.plans.record import PlanKey, PlanMemory, PlanRecord, TensorInfo
from visavis.bundles.store import load_manifest
from visavis.bundles.store.catalogue import default_model_dir
from visavis.bundles.store.installed import FileRecord
from visavis.bundles.triton.repository import ServingChoice, Written, write_network
from visavis.engine import open_engine
from visavis.serving.errors import InvalidInputError, PlanError, UnknownNameError
from visavis.tools.cli.main import app
from visavis.v1 import kserve_pb2 as pb

NAME = "audio-to-face.audio_to_face"
PLAN = b"what TensorRT wrote"


def written(folder: Path, choice: ServingChoice, plans: PlanCache | None = None) -> Written:
    return write_network(folder, WEIGHTS, load_manifest("audio-to-face"), choice, plans)


def config_in(folder: Path) -> tuple[str, pb.ModelConfig]:
    text = (folder / NAME / "config.pbtxt").read_text("utf-8")
    return text, text_format.Parse(text, pb.ModelConfig(), allow_unknown_field=True)


def test_a_network_is_laid_out_with_its_batch_and_its_digest(tmp_path: Path) -> None:
    choice = ServingChoice(device="cuda:1", instances=2, wait_us=500)
    assert written(tmp_path, choice) == Written(NAME, 8, WEIGHTS.stat().st_size)
    text, config = config_in(tmp_path)
    assert (config.name, config.max_batch_size) == (NAME, 8)
    assert config.parameters["sha256"].string_value == FileRecord.of(WEIGHTS).sha256
    assert 'input { name: "mel" data_type: TYPE_FP32 dims: [-1, 40] }' in text
    assert "instance_group { count: 2 kind: KIND_GPU gpus: [1] }" in text
    assert "max_queue_delay_microseconds: 500" in text and "max_queue_size: 256" in text
    assert (tmp_path / NAME / "1" / "model.onnx").read_bytes() == WEIGHTS.read_bytes()
    with pytest.raises(InvalidInputError, match="device: 'tpu'"):
        written(tmp_path, ServingChoice(device="tpu"))


def test_the_command_lays_out_what_is_named(tmp_path: Path) -> None:
    folder = str(tmp_path / "models")
    done = CliRunner().invoke(
        app, ["engine", "triton-repository", folder, "--network", NAME, "--platform", "python"]
    )
    assert done.exit_code == 0 and NAME in done.output, done.output
    assert {file.name for file in (tmp_path / "models" / NAME / "1").iterdir()} == {
        "model.onnx",
        "model.py",
    }
    refused = CliRunner().invoke(app, ["engine", "triton-repository", folder, "--network", "a.b"])
    assert isinstance(refused.exception, UnknownNameError) and "a.b" in str(refused.exception)
    (tmp_path / "file").touch()
    command = ["engine", "triton-repository", str(tmp_path / "file"), "--network", NAME]
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, InvalidInputError)
    assert "file: cannot be written: Not a directory" in str(refused.exception)


def test_a_plan_is_served_where_one_was_built(tmp_path: Path) -> None:
    plans = PlanCache(tmp_path / "plans")
    choice = ServingChoice(platform="tensorrt", device="cuda:0")
    with pytest.raises(PlanError, match=r"no plans of audio-to-face .*engine build"):
        written(tmp_path, choice, plans)
    for compiler in ("tensorrt 11.4.0", "tensorrt_rtx 1.7"):  # Triton takes no plan of the latter
        plans.store(record(compiler), PLAN)
    written(tmp_path, choice, plans)
    assert (tmp_path / NAME / "1" / "model.plan").read_bytes() == PLAN
    text, config = config_in(tmp_path)
    assert config.max_batch_size == 8 and 'name: "mel" data_type: TYPE_FP32 dims: [-1, 40]' in text
    assert config.parameters["sha256"].string_value == FileRecord.of(WEIGHTS).sha256


def record(compiler: str) -> PlanRecord:
    recipe = load_manifest("audio-to-face").plans[0]
    return PlanRecord(
        bundle="audio-to-face",
        plan=recipe.name,
        precision="fp16",
        key=PlanKey(compiler, "sm_89", "0", "0", None),
        source_sha256="0",
        plan_sha256=hashlib.sha256(PLAN).hexdigest(),
        size_bytes=len(PLAN),
        profiles=recipe.profiles,
        inputs=(TensorInfo("mel", "FLOAT", (-1, -1, 40)),),
        outputs=(TensorInfo("visemes", "FLOAT", (-1, -1, 15)),),
        layers={},
        memory=PlanMemory(),
        build_s=1.0,
        built_at=datetime(2030, 1, 2, tzinfo=UTC),
    )


def test_the_python_backend_runs_requests_of_a_batch_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Triton's own module, which only its process has, is a double here."""
    utils: Any = ModuleType("triton_python_backend_utils")
    utils.Tensor = lambda name, array: (name, array)
    utils.InferenceResponse = lambda output_tensors: dict(output_tensors)
    utils.get_input_tensor_by_name = lambda request, name: SimpleNamespace(
        as_numpy=lambda: request[name]
    )
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", utils)
    written(tmp_path, ServingChoice(platform="python"))
    _, config = config_in(tmp_path)
    scope: dict[str, Any] = {"__name__": "model"}
    exec((tmp_path / NAME / "1" / "model.py").read_text("utf-8"), scope)
    model = scope["TritonPythonModel"]()
    model.initialize(
        {
            "model_config": config_json(config),
            "model_instance_kind": "CPU",
            "model_repository": str(tmp_path / NAME),
            "model_version": "1",
        }
    )
    rows = [np.full((count, 33, 40), count, np.float32) for count in (1, 3, 2)]
    answers = model.execute([{"mel": mel} for mel in rows])
    with open_engine(WEIGHTS) as engine:
        for mel, answer in zip(rows, answers, strict=True):
            for name, array in engine.infer({"mel": mel}).items():
                np.testing.assert_allclose(answer[name], array, atol=1e-5)


def config_json(config: pb.ModelConfig) -> str:
    """As Triton hands it to a model: its names are those of the protocol, not JSON's."""
    return json_format.MessageToJson(
        config, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def test_a_service_asks_triton_for_what_is_worth_it_and_runs_the_rest() -> None:
    def backend(model: Path, **options: str) -> str:
        return AsrSettings(backend="triton", **options).open_engine(model).backend

    bundles = default_model_dir(None)
    turn = bundles / "smart-turn" / "smart-turn.onnx"
    decoder = bundles / "moonshine-tiny-en" / "decoder.onnx"
    vad = bundles / "silero-vad" / "silero_vad.onnx"
    assert backend(turn) == "triton"
    assert {backend(other) for other in (decoder, vad, WEIGHTS)} == {"onnxruntime"}
    named = "moonshine-tiny-en.decoder, moonshine-tiny-en.encoder"
    assert backend(decoder, triton_networks=named) == "triton"
    assert backend(turn, triton_networks=named) == "onnxruntime"
