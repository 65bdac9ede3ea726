"""Plans hold what they promise, cost no less for more, and what they ask for is enough."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from visavis.serving.errors import InvalidInputError
from visavis.tools import plan as package
from visavis.tools.bench.load.schedule import Habits
from visavis.tools.cli.main import app
from visavis.tools.plan.backtest import TOLERANCE, back_test
from visavis.tools.plan.command import _profile
from visavis.tools.plan.compose import overrides, slots
from visavis.tools.plan.inventory import Gpu, Inventory, Node, inventory_of, with_addition
from visavis.tools.plan.measured import Measured
from visavis.tools.plan.placement import Plan, Refusal, Wanted, losses, plan
from visavis.tools.plan.prediction import GPU_MEMORY_SHARE, Scene, Seat, predict
from visavis.tools.plan.profiles import SERVICES, STAGES, Profile, profile_of
from visavis.tools.plan.queueing import MOST_BUSY, batch_factor
from visavis.tools.plan_bench import BenchRow

_SHIPPED = tomllib.loads(
    (Path(package.__file__).parent / "profiles.toml").read_text(encoding="utf-8")
)
_SLO = {"voice_to_voice": 0.8}


def shipped(name: str) -> Profile:
    return profile_of(name, ("shipped", _SHIPPED))


def cards(*sizes_gb: float) -> tuple[Gpu, ...]:
    return tuple(Gpu(f"card{gb:g}", gb * 1e9, str(i)) for i, gb in enumerate(sizes_gb))


ONE = Inventory((Node("one", 16, 64e9, 1.0, cards(24)),))
MIXED = Inventory(
    (Node("large", 32, 128e9, 3.0, cards(48, 24)), Node("small", 16, 64e9, 1.2, cards(24, 16)))
)
TWO = Inventory((Node("dear", 16, 64e9, 2.0, cards(48)), Node("cheap", 16, 64e9, 1.0, cards(24))))
CORES = Inventory((Node("cores", 2, 16e9, 0.1),))
CASES = [
    ("cpu", CORES, 12, 0.8),
    ("gpu-small", ONE, 14, 0.8),
    ("gpu", TWO, 24, 0.8),
    ("gpu", ONE, 14, 5.0),  # where memory is what ends it
]


def planned(profile: str, inventory: Inventory, sessions: int, **more: Any) -> Plan | Refusal:
    scene = Scene(inventory, shipped(profile), Habits())
    return plan(Wanted(sessions, more.pop("p95_s", _SLO), **more), scene)


# ------------------------------------------------------------ what every plan keeps


@pytest.mark.parametrize(("profile", "inventory", "most", "slo_s"), CASES)
def test_a_plan_holds_memory_throughput_and_latency_and_more_sessions_never_cost_less(
    profile: str, inventory: Inventory, most: int, slo_s: float
) -> None:
    before, refused = 0.0, False
    for sessions in (1, most // 2, most - 1, most):
        found = planned(profile, inventory, sessions, p95_s={"voice_to_voice": slo_s})
        if isinstance(found, Refusal):
            refused = True
            assert found.most < sessions
            continue
        assert not refused, "more were refused, and these were not"
        assert found.price >= before
        before = found.price
        nodes = found.scene.inventory.nodes
        for (n, g), used in found.prediction.gpu_bytes.items():
            assert used <= nodes[n].gpus[g].memory_bytes * GPU_MEMORY_SHARE
        for node, used in zip(nodes, found.prediction.node_bytes, strict=True):
            assert used <= node.memory_bytes
        assert all(load.full <= MOST_BUSY for load in found.prediction.loads)
        assert found.prediction.p95("voice_to_voice") <= slo_s
        for service in SERVICES:
            shares = [x.sessions for x in found.prediction.loads if x.seat.service == service]
            assert sum(shares) == pytest.approx(sessions)
    assert refused


@pytest.mark.parametrize(
    ("profile", "inventory", "sessions", "spare"),
    [
        ("cpu", CORES, 9, False),
        ("gpu-small", ONE, 16, False),
        ("gpu", ONE, 12, True),
        ("gpu", Inventory((Node("none", 8, 32e9, 0.5, cards(12)),)), 4, False),
        ("gpu", Inventory((Node("bare", 8, 32e9, 0.5),)), 4, False),
        ("gpu", Inventory((Node("few", 1, 32e9, 0.5, cards(48, 48)),)), 12, False),
    ],
)
def test_what_is_refused_fits_once_what_it_asked_for_is_there(
    profile: str, inventory: Inventory, sessions: int, spare: bool
) -> None:
    refusal = planned(profile, inventory, sessions, spare=spare)
    assert isinstance(refusal, Refusal)
    assert refusal.problems
    assert refusal.addition is not None
    larger = with_addition(inventory, refusal.addition)
    assert isinstance(planned(profile, larger, sessions, spare=spare), Plan), str(refusal.addition)


def test_no_machine_helps_against_what_a_lone_visitor_would_miss() -> None:
    refusal = planned("cpu", CORES, 1, p95_s={"voice_to_voice": 0.3})
    assert isinstance(refusal, Refusal)
    assert (refusal.most, refusal.addition) == (0, None)
    assert "0.3 s are wanted" in str(refusal.problems[0])


def test_a_plan_with_a_spare_holds_after_the_loss_of_any_card_or_process() -> None:
    found = planned("gpu", MIXED, 12, spare=True)
    assert isinstance(found, Plan)
    for what, rest in losses(found.layout, found.scene):
        left = predict(12, rest, found.scene)
        assert not left.problems, what
        assert left.p95("voice_to_voice") <= _SLO["voice_to_voice"], what
    for load in found.prediction.loads:
        if load.seat.service == "llm":
            assert slots(found, load) == 12, "the other one may be gone"
    plain = planned("gpu", MIXED, 12)
    assert isinstance(plain, Plan) and plain.price <= found.price


# ------------------------------------------------------------ back-tests


def test_the_prediction_agrees_with_the_simulated_stack() -> None:
    """50 visitors, four replicas of each with a device each: docs/simulation.md."""
    devices = Node("simulated", 64, 1e12, 0.0, cards(*[80.0] * 16))
    layout = [Seat(s, 0, 4 * k + i) for k, s in enumerate(STAGES) for i in range(4)]
    layout += [Seat("gateway", 0, None, 8), Seat("nats", 0)]
    habits = Habits(duty=0.4, turn_s=6.5)
    found = predict(50, layout, Scene(Inventory((devices,)), shipped("simulated"), habits))
    predicted = [found.voice.mean_s, found.voice.p95_s, found.text.mean_s, found.text.p95_s]
    assert predicted == pytest.approx([0.537, 0.658, 0.258, 0.296], rel=0.1)
    busy = {load.seat.service: load.busy for load in found.loads if load.seat.service in STAGES}
    published = {"asr": 0.34, "llm": 0.33, "tts": 0.04, "face": 0.50}
    assert busy == pytest.approx(published, rel=TOLERANCE)


def recorded_load() -> Any:
    return json.loads(Path(__file__).with_name("recorded_load.json").read_text())


def test_a_recorded_load_is_told_beside_what_was_predicted() -> None:
    load = recorded_load()
    test = back_test(load, shipped("cpu"), "recorded")
    rows = {(row.sessions, row.figure): row for row in test.rows}
    lone = rows[1, "voice to voice, median, s"]
    assert lone.set_right == pytest.approx(lone.measured, rel=0.01), "it was set right by this"
    assert rows[1, "cores"].set_right == pytest.approx(rows[1, "cores"].measured, rel=0.01)
    more = [row for row in test.rows if row.sessions > 1]
    told = [abs(row.off(row.published) or 0.0) <= TOLERANCE for row in more]
    assert (sum(told), len(told)) == (12, 15), "the P95s of 13 to 22 answers are what it misses"
    assert (test.knees.measured, test.knees.published) == (2, 3)
    with pytest.raises(InvalidInputError, match="bench load --json"):
        back_test({"benchmark": "latency"}, shipped("cpu"), "other.json")


def test_a_prediction_that_is_off_may_be_one_that_few_answers_leave_open() -> None:
    load = recorded_load()
    step = next(step for step in load["steps"] if step["sessions"] == 3)
    count = step["figures"]["voice_to_voice"]["count"]
    slow = [{"step": 3, "figures": {"voice_to_voice": 1.1}}] * 3
    quick = [{"step": 3, "figures": {"voice_to_voice": 0.6}}] * (count - len(slow) - 1)
    for last_s, inside in ((0.6, True), (1.1, False)):
        last = {"step": 3, "figures": {"voice_to_voice": last_s}}
        test = back_test({**load, "turns": [*slow, *quick, last]}, shipped("cpu"), "recorded")
        rows = {(row.sessions, row.figure): row for row in test.rows}
        row = rows[3, "voice to voice, P95, s"]
        assert abs(row.off(row.published) or 0.0) > TOLERANCE
        assert row.interval is not None and row.interval[1] == math.inf, "of so few answers"
        assert row.inside(row.published) == inside, row
        assert row.inside(99.0) is None, "nothing in these answers speaks against it"
        assert rows[3, "text to voice, P95, s"].interval is None, "its answers are not told"
        assert rows[3, "cores"].inside(rows[3, "cores"].published) is None


# ------------------------------------------------------------ prediction, by its parts


def test_a_batch_takes_what_the_curve_says_and_beyond_it_a_further_run() -> None:
    curve = ((1, 280.0), (4, 320.0), (8, 350.0))
    assert batch_factor(curve, 1) == 1.0
    assert batch_factor(curve, 4) == pytest.approx(320 / 280)
    assert batch_factor(curve, 6) == pytest.approx(335 / 280)
    assert batch_factor(curve, 16) == pytest.approx(2 * 350 / 280)


def test_who_shares_a_card_waits_longer_and_a_quicker_card_shortens_it() -> None:
    def voice_s(layout: list[Seat], speed: float = 1.0) -> float:
        gpus = tuple(replace(card, speed=speed) for card in cards(80, 80))
        scene = Scene(Inventory((Node("n", 64, 1e12, 0, gpus),)), shipped("gpu"), Habits())
        return predict(10, layout, scene).voice.p95_s

    rest = [Seat("tts", 0, 0), *(Seat(s, 0) for s in ("face", "nats", "gateway"))]
    together = [Seat("asr", 0, 0), Seat("llm", 0, 0), *rest]
    apart = [Seat("asr", 0, 1), Seat("llm", 0, 0), *rest]
    assert voice_s(together, 2.0) < voice_s(apart) < voice_s(together)


# ------------------------------------------------------------ what it is told


def inventory(**changes: Any) -> dict[str, Any]:
    card = {"model": "L4", "memory_gb": 24, "count": 2}
    node = {"name": "box", "cores": 16, "memory_gb": 64, "gpus": [card], **changes}
    return {"nodes": [node]}


def test_an_inventory_is_read_with_cards_numbered_as_the_machine_numbers_them() -> None:
    first, second = inventory_of(inventory(count=2), "file").nodes
    assert (first.name, second.name) == ("box-1", "box-2")
    assert [gpu.device_id for gpu in second.gpus] == ["0", "1"]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (None, "names with values"),
        ({"nodes": []}, "one at least"),
        ({"nodes": [1], "spare": 1}, "unknown: spare; known: currency, nodes"),
        (inventory(name="a b"), "`name` is 'a b'"),
        (inventory(cores="many"), "node 1 \\(box\\): `cores` is 'many'"),
        (inventory(price_per_hour=-1), "`price_per_hour` is -1"),
        (inventory(count=2.9), "`count` is 2.9"),
        (inventory(gpus=[{"model": "L4"}]), "card 1: `memory_gb` is missing"),
        (inventory(gpus=[{"memory_gb": 24, "uuid": "0"}]), "GPU-"),
        ({"nodes": inventory()["nodes"] * 2}, "two machines are called 'box'"),
    ],
)
def test_an_inventory_that_is_wrong_is_refused_by_its_place(told: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        inventory_of(told, "file")


def test_own_figures_replace_estimates_and_none_is_taken_without_its_source() -> None:
    assert "llm.token_s_estimate" in shipped("gpu").estimates
    own = {"gpu": {"llm": {"token_s": {"value": 0.01, "source": "measured here"}}}}
    found = profile_of("gpu", ("shipped", _SHIPPED), ("own", own))
    assert found.costs["llm"].token_s == 0.01
    assert "llm.token_s_estimate" not in found.estimates
    for wrong, message in (
        ({"gpu": {"llm": {"token_s": 0.01}}}, "without a source"),
        ({"gpu": {"llm": {"speed": {"value": 1, "source": "x"}}}}, "unknown: speed"),
        ({"gpu": {"llm": {"batches": [[2, 1]]}}}, "from one request"),
        ({"gpu": {"like": "gpu"}}, "no other profile"),
        ({"gpuu": own["gpu"]}, "has gpuu, and nothing of the chosen one: gpu or cpu"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            profile_of("gpu", ("shipped", _SHIPPED), ("own", wrong))


def test_what_engine_bench_measured_takes_the_place_of_estimates(tmp_path: Path) -> None:
    rows = [
        ("encoder", BenchRow("onnxruntime cpu fp32", 1, 4.0, 5.0, 9)),
        ("decoder", BenchRow("onnxruntime cpu fp32", 1, 6.0, 7.0, 9)),
        ("encoder", BenchRow("onnxruntime cpu fp32", 2, 3.0, 5.0, 9)),
        ("decoder", BenchRow("onnxruntime cpu fp32", 2, 6.5, 7.0, 9)),
        ("encoder", BenchRow("onnxruntime cpu fp32", 4, 9.0, 9.0, 9)),
        ("decoder", BenchRow("onnxruntime cpu fp32", 4, problem="takes one item")),
        ("encoder", BenchRow("tensorrt fp16", 1, 1.0, 1.0, 9)),
    ]
    machine = {"cores": 2, "gpu": "none"}
    measured = Measured("a-voice", "tts", rows, all=True, machine=machine, date="2026-05-03")
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(measured.told()), encoding="utf-8")
    told = json.loads(file.read_text(encoding="utf-8"))
    assert told["machine"] == machine and told["date"] == "2026-05-03" and len(told["rows"]) == 7
    assert set(told["profiles"]) == {"cpu"}, "one network alone is no voice"
    found = _profile("cpu", file, None)
    assert found.costs["tts"].phrase_s == 0.01
    # The larger run was quicker by chance; of four requests the decoder says nothing.
    assert found.costs["tts"].batches == ((1, 10.0), (2, 10.0))
    (source,) = [f.source for s, f in found.sources() if (s, f.name) == ("tts", "phrase_s")]
    assert "a-voice" in source and "2026-05-03" in source
    part = replace(measured, all=False)
    file.write_text(json.dumps(part.told()), encoding="utf-8")
    with pytest.raises(InvalidInputError, match="no figure of a plan"):
        _profile("cpu", file, None)


# ------------------------------------------------------------ what carries it out


def test_the_override_gives_each_service_its_cards() -> None:
    """Its settings: `tests/deploy/test_plan_override.py`."""
    found = planned("gpu", MIXED, 40)
    assert isinstance(found, Plan)
    written = overrides(found)
    names = {name.split("-")[0] for file in written.values() for name in file["services"]}
    assert names == {"bus" if name == "nats" else name for name in SERVICES}
    on_cards = set()
    for node, file in written.items():
        for name, entry in file["services"].items():
            service = name.split("-")[0]
            devices = entry["deploy"]["resources"]["reservations"].get("devices", [])
            on_cards |= {(node, i, name) for d in devices for i in d["device_ids"]}
            assert bool(devices) == (service in ("asr", "llm", "tts"))
    assert len(on_cards) == sum(seat.gpu is not None for seat in found.layout)


def test_the_command_writes_a_plan_and_refuses_with_what_would_do(tmp_path: Path) -> None:
    file, out = tmp_path / "inventory.yaml", tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump(inventory(price_per_hour=1.5)), encoding="utf-8")
    told = ["plan", "--gpus", str(file), "--profile", "gpu-small", "--sessions"]
    done = CliRunner().invoke(app, [*told, "6", "--compose", str(out)])
    assert done.exit_code == 0, done.output
    assert "session-hour" in done.output and "estimates" in done.output
    assert "device_ids:" in out.read_text(encoding="utf-8")
    refused = CliRunner().invoke(app, [*told, "30"])
    assert refused.exit_code == 1
    assert "It would do to add" in refused.output
    both = CliRunner().invoke(app, ["plan", "--against", "load.json", "--compose", str(out)])
    assert "--against: makes no plan" in str(both.exception)
    wrong = CliRunner().invoke(app, [*told, "1", "--slo", "latency=1"])
    assert isinstance(wrong.exception, InvalidInputError)
    assert "voice_to_voice_p95=0.8" in str(wrong.exception)
