"""`visavis engine` where a quality gate refuses a precision."""

from __future__ import annotations

import re

import pytest

from tests.bundles.compile.compiling import rtx
from tests.bundles.compile.small_store import Engine, Store
from visavis.bundles.compile.builder import PlanBuilder
from visavis.bundles.compile.plans.cache import PlanCache
from visavis.bundles.compile.plans.findings import Finding, findings_path, keep_findings
from visavis.bundles.compile.survey import requests_of
from visavis.bundles.compile.targets import PORTABLE
from visavis.serving.errors import PlanRefusedError
from visavis.tools.cli.engine import bench as engine_bench


@pytest.fixture
def refused(engine: Engine, store: Store) -> str:
    """A bundle whose plan in 16 bits failed its gate after it was built."""
    engine("build", "half-net", "--flavour", "rtx")
    (entry,) = PlanCache(store.plans).entries()
    assert entry.record is not None
    found = Finding(
        bundle="half-net",
        precision="fp16",
        graphs={"net": entry.record.key.onnx_sha256},
        measure="visemes wrong, %",
        sample="20 sentences",
        reference=8.5,
        value=12.0,
        limit=0.5,
    )
    keep_findings(findings_path(store.plans), [found])
    return "half-net"


REFUSAL = r"half-net net is not built in fp16: visemes wrong, % 12\.00 against 8\.50"


@pytest.mark.parametrize("command", ["build", "build --force", "inspect"])
def test_a_refused_precision_is_left_out_with_its_figure(
    engine: Engine, refused: str, command: str
) -> None:
    asked = (*command.split(), refused, "--flavour", "rtx")
    told = engine(*asked).output
    assert re.search(f"left out: {REFUSAL}", told)
    assert "Tensors" not in told
    result = engine(*asked, "--precision", "fp16", fails=PlanRefusedError)
    assert re.search(REFUSAL, str(result.exception))


def test_a_service_is_given_no_plan_of_it(refused: str, store: Store) -> None:
    (request,) = requests_of(refused, precisions=["fp16"], model_dir=store.models)
    with pytest.raises(PlanRefusedError, match=REFUSAL):
        PlanBuilder(rtx(), PORTABLE, PlanCache(store.plans)).cached(request)


def test_a_check_tells_what_compiles_and_is_not_for_use(engine: Engine, refused: str) -> None:
    told = engine("check", "--bundle", refused, "--flavour", "rtx").output
    assert "1 compiled" in told
    assert re.search(f"compiled, but not for use: {REFUSAL}", told)


def test_a_bench_measures_the_fallback_of_a_refused_precision(
    engine: Engine, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_bench, "_gpu", lambda choice: ((rtx(), PORTABLE), ""))
    told = engine("bench", refused, "--batch", "1", "--seconds", "0.05").output
    assert re.search(f"left out: {REFUSAL}", told)
    assert "onnxruntime cpu fp32" in told
