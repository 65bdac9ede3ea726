"""The image's pins, which nothing here builds: that they do not drift from the rest."""

import re
from pathlib import Path

from services.llm.backends.tensorrt_llm_api import WRITTEN_FOR

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "deploy" / "llm-tensorrt"


def pins(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==([\w.]+)", text, re.MULTILINE))


def test_its_packages_have_the_versions_of_the_lock() -> None:
    lock = pins((ROOT / "requirements" / "run.lock").read_text(encoding="utf-8"))
    image = pins((IMAGE / "requirements.txt").read_text(encoding="utf-8"))
    assert image
    assert image.items() <= lock.items()


def test_it_has_the_release_whose_signatures_we_know() -> None:
    dockerfile = (IMAGE / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(rf"^ARG TENSORRT_LLM={re.escape(WRITTEN_FOR)}$", dockerfile, re.MULTILINE)
    assert f"tensorrt_llm=={WRITTEN_FOR}" in (IMAGE / "README.md").read_text(encoding="utf-8")
