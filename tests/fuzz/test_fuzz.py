"""Some odd inputs for every decoder, the same each time: `python -m tests.fuzz` tries more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fuzz.catalogue import DECODERS
from tests.fuzz.decoder import Decoder, run, told

_INPUTS = 30
_SEED = 20_261_122


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: str(decoder.name))
def test_odd_inputs_are_read_or_refused(decoder: Decoder) -> None:
    tally = run(decoder, _INPUTS, _SEED)
    assert tally.inputs
    assert tally.finding is None, told(tally)


def test_the_list_of_decoders_is_whole() -> None:
    page = (Path(__file__).parents[2] / "docs" / "fuzzing.md").read_text(encoding="utf-8")
    table = page.partition("## Decoders")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| ([a-z0-9-]+) \|", table, re.M)
    assert listed == ["decoder", *(decoder.name for decoder in DECODERS)]
