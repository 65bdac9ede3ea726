"""Samples name the turn that they come from, where the scraper asks for it."""

from __future__ import annotations

from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from visavis.serving import metrics
from visavis.serving.logs import log_context


def exemplars_of(name: str) -> list[dict[str, str]]:
    encode, _ = choose_encoder("application/openmetrics-text; version=1.0.0")
    page = encode(REGISTRY).decode()
    (family,) = [f for f in text_string_to_metric_families(page) if f.name == name]
    return [sample.exemplar.labels for sample in family.samples if sample.exemplar is not None]


def test_a_sample_names_session_and_turn() -> None:
    with log_context(session="s" * 64), log_context(turn=4_294_967_295):
        metrics.llm_ttft_seconds.observe(0.0123, metrics.exemplar())
    (labels,) = [e for e in exemplars_of("llm_ttft_seconds") if e["session"] == "s" * 64]
    assert labels["turn"] == "4294967295"
    assert sum(len(name) + len(value) for name, value in labels.items()) <= 128


def test_outside_of_sessions_nobody_is_named() -> None:
    assert metrics.exemplar() is None
    with log_context(turn=3):
        assert metrics.exemplar() is None
    with log_context(session="abc"):
        assert metrics.exemplar() == {"session": "abc"}
