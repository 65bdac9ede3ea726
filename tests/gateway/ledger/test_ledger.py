"""Stages, spans, overhead, other machines' clocks and records: all pure, all times made up."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.api.events import LatencyEvent, Origin
from gateway.ledger.ledger import Ledger, Mark
from gateway.ledger.records import Records
from gateway.ledger.spans import covered_s, overhead_s, spans_of
from gateway.ledger.stopwatch import Stopwatch
from gateway.playout.playout import Playout, PlayoutEvent, Tick
from gateway.stages.registry import HostClocks
from gateway.talk.conversation import Conversation
from gateway.talk.history import SpokenMark
from gateway.talk.turn import KEPT_TURNS
from visavis.wire.media import Place, Stamp, TokenChunk, TranscriptChunk, TranscriptEvent

OURS, THEIRS = 1, 2

# A turn that was prepared in the pause: in milliseconds from the end of speech.
SPECULATED = {
    "asr.ready": 64, "asr.started": 65, "asr.finished": 115, "asr.paused": 116,
    "opened": 117, "llm.first_got": 118, "llm.first_started": 120, "llm.first_finished": 150,
    "tts.first_got": 151, "tts.first_ready": 170, "tts.first_started": 172,
    "tts.first_finished": 200, "first_voice": 201,
    "asr.certain": 240, "asr.final": 241, "understood": 242,
    "face.first_got": 201, "face.first_ready": 202, "face.first_started": 244,
    "face.first_finished": 247, "encoder.first_started": 247, "encoder.first_finished": 249,
    "first_picture": 250, "started": 256, "first_picture_shown": 256,
}  # fmt: skip
# The same where nothing was prepared, and a typed question.
IN_SERIES = {
    "asr.ready": 64, "asr.started": 65, "asr.finished": 115, "asr.certain": 240, "asr.final": 240,
    "understood": 241, "opened": 241, "llm.first_got": 242, "llm.first_started": 242,
    "llm.first_finished": 272, "tts.first_got": 273, "tts.first_ready": 293,
    "tts.first_started": 293, "tts.first_finished": 321, "first_voice": 322,
    "face.first_got": 322, "face.first_ready": 322, "face.first_started": 323,
    "face.first_finished": 326, "encoder.first_started": 326, "encoder.first_finished": 328,
    "first_picture": 329, "started": 340,
}  # fmt: skip


def ledger(moments: dict[str, float], origin: Origin = "speech") -> Ledger:
    made = Ledger(1, origin)
    for name, at_ms in {"asked": 0.0, **moments}.items():
        at_s = 1000 + at_ms / 1000
        if "." in name:
            made.stamp(name, at_s)
        else:
            made.mark(Mark(name), at_s)
    return made


def spans(made: Ledger) -> dict[tuple[str, str, str], list[tuple[float, float]]]:
    out: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for span in spans_of(made):
        key = (span.stage, span.kind, span.chunk)
        out.setdefault(key, []).append((span.start_ms, span.end_ms))
    return out


def test_queue_compute_and_transfer_are_told_apart() -> None:
    found = spans(ledger(SPECULATED))
    assert found["llm", "transfer", "first"] == [(117, 118)]
    assert found["llm", "queue", "first"] == [(118, 120)]
    assert found["llm", "compute", "first"] == [(120, 150)]
    assert found["tts", "wait", "first"] == [(151, 170)]
    assert found["encoder", "compute", "first"] == [(247, 249)]
    assert found["asr", "wait", "first"] == [(0, 64), (115, 241)]
    assert found["playout", "transfer", "first"] == [(200, 201), (249, 250)]


def test_a_held_turn_waits_for_the_visitor_and_then_for_its_picture() -> None:
    found = spans(ledger(SPECULATED))
    assert found["face", "wait", "first"] == [(201, 242)]
    assert found["face", "queue", "first"] == [(242, 244)]
    assert found["playout", "wait", "first"] == [(201, 242), (242, 250)]
    assert found["playout", "queue", "first"] == [(250, 256)]


@pytest.mark.parametrize(
    ("picture_ms", "started_ms", "waited_for"),
    [(400, 390, True), (None, 390, True), (350, 335, False), (None, 335, False)],
)
def test_the_voice_waits_for_a_picture_so_long_and_for_a_tick(
    picture_ms: float | None, started_ms: float, waited_for: bool
) -> None:
    """One that comes late, or never, has held up nothing after the start."""
    told: dict[str, float] = {name: at for name, at in IN_SERIES.items() if name != "first_picture"}
    told |= {"started": started_ms} | ({} if picture_ms is None else {"first_picture": picture_ms})
    found = spans(ledger(told))
    kind, other = ("wait", "queue") if waited_for else ("queue", "wait")
    assert found["playout", kind, "first"] == [(322, started_ms)]
    assert ("playout", other, "first") not in found
    if picture_ms is not None:
        assert found["playout", "transfer", "first"][-1][1] == picture_ms


# ------------------------------------------------------------ overhead


# Wait, first token, rest of the phrase, voice, picture.
COVERED_MS = 240 + 30 + 21 + 28 + 5


@pytest.mark.parametrize(
    ("origin", "moments", "overhead_ms"),
    [
        # From 240 on: told, transferred, face started (4), its work (5), 7 more to the tick.
        ("speech", SPECULATED, 256 - 240 - 5),
        ("speech", IN_SERIES, 340 - COVERED_MS),
        # A picture that nobody waited for excuses nothing.
        ("speech", {**IN_SERIES, "first_picture": 321.5}, 340 - COVERED_MS + 5),
        # A typed question needs no ears, an answer that was known no language model.
        (
            "text",
            {n: at - 241 for n, at in IN_SERIES.items() if not n.startswith("asr")},
            99 - COVERED_MS + 240,
        ),
        ("speech", {n: at for n, at in SPECULATED.items() if not n.startswith("llm")}, 11),
    ],
)
def test_overhead_is_what_neither_waits_for_the_visitor_nor_computes(
    origin: Origin, moments: dict[str, float], overhead_ms: float
) -> None:
    assert overhead_s(ledger(moments, origin)) == pytest.approx(overhead_ms / 1000)


@pytest.mark.parametrize("missing", ["started", "tts.first_started", "asr.certain"])
def test_without_all_times_there_is_no_overhead(missing: str) -> None:
    moments = {name: at for name, at in IN_SERIES.items() if name != missing}
    assert overhead_s(ledger(moments)) is None


def test_tools_have_their_own_time_and_the_language_model_the_rest() -> None:
    called = ledger(
        {
            "opened": 1, "understood": 1, "called": 41, "llm.first_got": 1042,
            "llm.first_started": 1042, "llm.first_finished": 1060,
            "tts.first_got": 1062, "tts.first_ready": 1062, "tts.first_started": 1062,
            "tts.first_finished": 1090, "first_voice": 1091, "started": 1100,
        },
        "text",
    )  # fmt: skip
    called.tools_done(1000.041, 1001.041)
    called.mark(Mark.FIRST_TOKEN, 1001.061)
    found = spans(called)
    assert found["tools", "compute", "first"] == [(41, 1041)]
    assert found["llm", "compute", "first"] == [(1, 41), (1042, 1060)]
    assert found["llm", "transfer", "first"] == [(1041, 1042)]
    stages = {stage.name: (stage.start_ms, stage.end_ms) for stage in called.stages()}
    assert stages["tools"] == (41, 1041) and stages["llm"] == (1041, 1061)
    assert overhead_s(called) == pytest.approx(0.012)
    # What is called while the answer is heard keeps nobody waiting for it.
    called.tools_done(1002.0, 1003.0)
    assert spans(called)["tools", "compute", "last"] == [(2000, 3000)]


def test_what_is_covered_twice_counts_once() -> None:
    assert covered_s([(0, 4), (1, 2), (3, 6), (8, 9), (9, 8)]) == 7


# ------------------------------------------------------------ clocks


def test_our_own_clock_needs_no_reading() -> None:
    clocks = HostClocks(OURS)
    assert clocks.local_s(Stamp("a.b", 5_000_000_000, OURS)) == 5.0
    assert clocks.local_s(Stamp("a.b", 5_000_000_000, THEIRS)) is None
    assert clocks.local_s(Stamp("a.b", 5_000_000_000)) is None
    clocks.note(0, 1.0, 2.0, 2.0)
    assert clocks.offset(0) is None, "whose it is was not told"


def test_another_clock_is_placed_by_the_quickest_of_its_readings() -> None:
    clocks = HostClocks(OURS)
    clocks.note(THEIRS, 70.0, 10.0, 10.5)  # there for up to half a second
    clocks.note(THEIRS, 72.001, 12.0, 12.002)
    offset = clocks.offset(THEIRS)
    assert offset is not None and offset.error_s == pytest.approx(0.001)
    assert clocks.local_s(Stamp("a.b", 72_501_000_000, THEIRS)) == pytest.approx(12.501)


def test_old_readings_are_forgotten() -> None:
    clocks = HostClocks(OURS)
    clocks.note(THEIRS, 0.0, 100.0, 100.0)
    for second in range(10):
        clocks.note(THEIRS, second, 100.01 + second, 100.11 + second)
    offset = clocks.offset(THEIRS)
    assert offset is not None and offset.offset_s == pytest.approx(100.06)


def test_of_a_machine_that_has_slept_the_first_reading_counts_however_slow() -> None:
    clocks = HostClocks(OURS)
    clocks.note(THEIRS, 70.0, 10.0, 10.001)
    clocks.note(THEIRS, 72.0, 612.0, 612.5)
    assert clocks.local_s(Stamp("a.b", 72_500_000_000, THEIRS)) == pytest.approx(612.75)


# ------------------------------------------------------------ the stopwatch


def stamp(name: str, at_s: float, clock: int = OURS) -> Stamp:
    return Stamp(name, round(at_s * 1e9), clock)


def heard(event: TranscriptEvent, *stamps: Stamp) -> TranscriptChunk:
    return TranscriptChunk(Place("s", 0, 0, 0, stamps=stamps), event, 1, "Hello?")


def tick(*events: tuple[PlayoutEvent, int]) -> Tick:
    return Tick(0, np.zeros(960, np.int16), (), events)


def latency_of(watch: Stopwatch) -> LatencyEvent:
    told = watch.latency()
    assert told is not None
    return told


def test_a_held_turn_counts_from_the_final_words() -> None:
    watch = Stopwatch("s", HostClocks(OURS))
    watch.heard(heard(TranscriptEvent.PAUSED, stamp("asr.ready", 10.1)), 10.0)
    watch.opened(3, "speech", 10.2, held=True)
    watch.heard(heard(TranscriptEvent.FINAL, stamp("asr.ready", 11.1)), 11.0)
    watch.confirmed(11.3)
    watch.tick(tick((PlayoutEvent.STARTED, 3)), Playout(), 11.4)
    told = latency_of(watch)
    assert (told.turn, told.origin, told.voice_to_voice_ms) == (3, "speech", 400)
    first = told.spans[0]
    assert (first.stage, first.kind, first.end_ms) == ("asr", "wait", 100)


def test_a_welcome_counts_from_when_it_was_decided() -> None:
    watch = Stopwatch("s", HostClocks(OURS))
    watch.opened(1, "welcome", 5.0, held=False)
    watch.tick(tick((PlayoutEvent.STARTED, 1)), Playout(), 5.2)
    assert (latency_of(watch).origin, latency_of(watch).voice_to_voice_ms) == ("welcome", 200)


def test_chunks_of_other_turns_are_not_noted() -> None:
    watch = Stopwatch("s", HostClocks(OURS))
    watch.asked(1.0)
    watch.opened(2, "text", 1.0, held=False)
    watch.token(TokenChunk(Place("s", 1, 0, 0, stamps=(stamp("llm.first_got", 0.5),)), "x"), 1.1)
    assert latency_of(watch).stages == [] and latency_of(watch).spans == []


def test_gaps_in_the_voice_are_counted_for_their_turn() -> None:
    watch = Stopwatch("s", HostClocks(OURS))
    watch.opened(1, "text", 1.0, held=False)
    watch.tick(tick((PlayoutEvent.UNDERRUN, 1), (PlayoutEvent.UNDERRUN, 2)), Playout(), 1.5)
    assert latency_of(watch).underruns == 1


def test_stamps_of_another_machine_tell_how_far_they_may_be_wrong() -> None:
    clocks = HostClocks(OURS)
    clocks.note(THEIRS, 500.0, 1.0, 1.004)
    watch = Stopwatch("s", clocks)
    watch.asked(2.0)
    watch.opened(1, "text", 2.0, held=False)
    stamps = (stamp("llm.first_got", 501.008, THEIRS), stamp("llm.first_started", 501.018, THEIRS))
    watch.token(TokenChunk(Place("s", 1, 0, 0, stamps=stamps), "x"), 2.1)
    told = latency_of(watch)
    assert told.clock_error_ms == 2
    assert [(s.kind, s.start_ms, s.end_ms) for s in told.spans] == [
        ("transfer", 0, 10), ("queue", 10, 20),
    ]  # fmt: skip


# ------------------------------------------------------------ stages and records


def moments(**marks: float) -> Ledger:
    made = Ledger(1, "speech")
    for name, at in marks.items():
        made.mark(Mark(name), at)
    return made


def test_playout_waits_for_the_later_of_words_and_voice() -> None:
    made = moments(asked=1.0, understood=1.1, first_voice=1.3, started=1.35)
    assert [(s.name, s.start_ms) for s in made.stages()] == [("asr", 0.0), ("playout", 300.0)]


def test_a_moment_comes_once() -> None:
    made = moments(asked=1.0)
    assert made.mark(Mark.STARTED, 2.0) and not made.mark(Mark.STARTED, 3.0)
    assert made.since_asked(Mark.STARTED) == 1.0


def test_an_incomplete_turn_shows_what_there_was() -> None:
    assert spans_of(Ledger(1, "text")) == Ledger(1, "text").stages() == []
    assert [s.name for s in moments(asked=1.0, opened=1.0, first_token=2.0).stages()] == ["llm"]


def test_records_follow_the_conversation() -> None:
    talk = Conversation()
    records = Records(talk.turns)
    talk.paused(1, "What", 0.9, 0)
    talk.token(1, "It ", last=False, now=0)
    assert records.get(1) is None and records.all() == [], "nobody was told of it"
    held = talk.turns.find(1)
    assert held is not None
    held.stage_seconds["llm"] = {"total": 0.5}
    talk.final(1, "What?", 0)
    talk.token(1, "[sad] is.", last=True, now=0)
    record = records.get(1)
    assert record is not None
    assert (record.state, record.transcript, record.answer_complete) == ("opened", "What?", True)
    assert record.stage_seconds == {"llm": {"total": 0.5}}
    talk.voice(1, 1.0, [SpokenMark(2, 0.5), SpokenMark(6, 1.0)], last=True, now=0)
    talk.started(1)
    talk.played(1, 0.6, 1)
    talk.submit_text("Hi.", 2)
    record = records.get(1)
    assert record is not None
    assert (record.state, record.reason, record.heard) == ("interrupted", "text", "It")
    assert record.answer.split() == ["It", "is."]
    assert [record.turn for record in records.all()] == [1, 2]


def test_old_records_are_forgotten() -> None:
    talk = Conversation()
    for _ in range(KEPT_TURNS + 2):
        talk.submit_text("Hi.", 0)
    records = Records(talk.turns)
    assert records.get(2) is None and len(records.all()) == KEPT_TURNS
