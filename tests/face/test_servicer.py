"""Attach, avatars and status over real gRPC and a real bus, with a studio that costs nothing."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from services.face.draw.blendshapes import ARKIT_NAMES
from services.face.settings import FaceSettings
from tests.face.draw.test_animator import SENTENCE, SENTENCE_FRAMES, mel_chunks
from tests.face.engines.made_head import bundle_files
from tests.face.fake_studio import FakeGallery, FakePainter
from tests.face.portraits import png_of_declared_size
from tests.face.serving import (
    BLENDSHAPES,
    H264,
    VOICE_SOURCE,
    VP8,
    Stub,
    animate_config,
    answers,
    attached,
    clock,
    creation,
    failing,
    frames,
    mel_request,
    play,
    say,
    serving,
    tone,
)
from tests.fakes import MetricGrowth
from visavis.v1 import control_pb2, face_pb2
from visavis.wire.bus import Bus
from visavis.wire.clock import MonotonicClock
from visavis.wire.idle_order import segment_of
from visavis.wire.media import (
    BLENDSHAPES_BYTES,
    BlendshapeChunk,
    ClockChunk,
    PcmChunk,
    Place,
    TurnChunk,
    VideoChunk,
    VideoCodec,
)
from visavis.wire.subjects import Kind


async def test_the_face_lives_while_idle(bus: Bus) -> None:
    async with serving(bus) as stub, bus.subscribe("live", Kind.VIDEO) as video:
        async with attached(stub, "live"):
            started = asyncio.get_running_loop().time()
            seen = await frames(video, lambda c: c.place.pts >= 25)
            took = asyncio.get_running_loop().time() - started
    assert all(c.live and c.place.turn == 0 for c in seen)
    assert [c.place.seq for c in seen] == list(range(len(seen)))
    assert seen[0].keyframe and not any(c.keyframe for c in seen[1:])
    assert took > 0.9


async def test_speaks_from_durations_and_goes_back_to_idle(bus: Bus) -> None:
    drawn = [MetricGrowth("face_frames_total", mode=mode) for mode in ("live", "speaking")]
    timed = MetricGrowth("face_frame_seconds_count")
    async with serving(bus) as stub, bus.subscribe("talk", Kind.VIDEO, limit=512) as video:
        async with attached(stub, "talk") as call:
            await frames(video, lambda c: c.place.pts >= 2)
            await say(bus, "talk", 1, mel_chunks(SENTENCE))
            first = (await frames(video, lambda c: not c.live))[-1]
            assert (first.place.turn, first.place.pts, first.place.seq) == (1, 0, 0)
            assert [s.stage for s in first.place.stamps] == [
                "face.first_got", "face.first_ready", "face.first_started",
                "face.first_finished", "encoder.first_started", "encoder.first_finished",
            ]  # fmt: skip
            times = [s.monotonic_ns for s in first.place.stamps]
            assert times == sorted(times)
            spoken = [first, *await play(bus, video)]
            assert [c.place.pts for c in spoken] == list(range(SENTENCE_FRAMES))
            assert max(c.payload[3] for c in spoken) == 255
            await clock(bus, "talk", 1, 4.0)
            after = await frames(video, lambda c: c.live)
            assert after[-1].place.turn == 0
            assert (await call.read()).turn_started.turn == 1
            done = (await call.read()).turn_finished
    assert done.turn == 1 and done.produced == SENTENCE_FRAMES and not done.cancelled
    assert set(done.seconds) == {"first_frame", "total"}
    assert drawn[1].value == SENTENCE_FRAMES
    assert timed.value == drawn[0].value + drawn[1].value


async def test_frames_run_at_most_the_lead_ahead_of_the_clock(bus: Bus) -> None:
    long = SENTENCE * 3
    async with serving(bus, lead_s=0.5) as stub, bus.subscribe("lead", Kind.VIDEO) as video:
        async with attached(stub, "lead"):
            await say(bus, "lead", 1, mel_chunks(long))
            await frames(video, lambda c: c.place.turn == 1 and c.place.pts == 9)
            await clock(bus, "lead", 1, 1.0)
            seen = await frames(video, lambda c: c.place.pts == 37 and not c.live)
            assert seen[-1].place.pts / 25 < 1.5
            with pytest.raises(TimeoutError):
                await frames(video, lambda c: c.place.pts == 38, within_s=0.2)


async def test_interruption_stops_the_turn_and_the_next_frame_stands_alone(bus: Bus) -> None:
    async with serving(bus) as stub, bus.subscribe("barge", Kind.VIDEO, limit=256) as video:
        async with attached(stub, "barge") as call:
            await say(bus, "barge", 1, mel_chunks(SENTENCE))
            await clock(bus, "barge", 1, 0.2)
            await frames(video, lambda c: c.place.turn == 1 and c.place.pts >= 8)
            await bus.publish(Kind.TURN, TurnChunk(Place("barge", 2, 0, 0), "interrupt"))
            seen = await frames(video, lambda c: c.live)
            assert seen[-1].keyframe
            later = await frames(video, lambda c: c.live and c.place.pts > seen[-1].place.pts + 3)
            assert all(c.live and not c.keyframe for c in later)
            assert later[-1].payload[2] == later[-1].payload[3] == 0
            await say(bus, "barge", 1, mel_chunks(SENTENCE))
            await say(bus, "barge", 2, mel_chunks(SENTENCE))
            turns = {c.place.turn for c in await frames(video, lambda c: c.place.turn == 2)}
            assert turns <= {0, 2}
            assert (await call.read()).turn_started.turn == 1
            assert (await call.read()).turn_finished.cancelled


async def test_a_picture_that_an_interruption_overtakes_is_not_sent(bus: Bus) -> None:
    gallery = FakeGallery()
    async with serving(bus, gallery) as stub, bus.subscribe("late", Kind.VIDEO) as video:
        async with attached(stub, "late") as call:
            await say(bus, "late", 1, mel_chunks(SENTENCE))
            await frames(video, lambda c: c.place.turn == 1)
            gallery.go.clear()
            assert (await call.read()).turn_started.turn == 1
            await clock(bus, "late", 1, 0.5)
            await bus.publish(Kind.TURN, TurnChunk(Place("late", 2, 0, 0), "interrupt"))
            assert (await call.read()).turn_finished.cancelled
            await bus.flush()
            async with bus.subscribe("late", Kind.VIDEO) as after:
                gallery.go.set()
                seen = await frames(after, lambda c: c.live and c.place.pts > 3)
    assert {c.place.turn for c in seen} == {0} and seen[0].keyframe


async def test_speaks_from_the_voice(bus: Bus) -> None:
    """And from nothing that comes late of one in whose place it is."""
    late = PcmChunk(Place("voice", 1, 9, 100), 24_000, tone(0.02))
    async with serving(bus) as stub, bus.subscribe("voice", Kind.VIDEO, limit=256) as video:
        async with attached(stub, "voice", source=VOICE_SOURCE):
            pcm = tone(1.0)
            for seq, start in enumerate(range(0, len(pcm), 320)):
                last = start + 320 >= len(pcm)
                place = Place("voice", 1, seq, start, last)
                piece = PcmChunk(place, 16_000, pcm[start : start + 320], run=1)
                await bus.publish(Kind.VOICE, piece)
                if not start:
                    await bus.publish(Kind.VOICE, late)
            seen = await play(bus, video)
    spoken = [c for c in seen if c.place.turn == 1]
    assert len(spoken) == 25
    assert np.median([c.payload[2] for c in spoken]) > 40


@pytest.mark.parametrize("source", ["mel", "voice"])
async def test_a_turn_goes_on_with_the_frame_that_is_heard(bus: Bus, source: str) -> None:
    """What of it comes by the bus before the face is told of the turn waits."""
    from_voice, pcm, heard = source == "voice", tone(2.0), 28
    voice = [
        PcmChunk(Place("", 1, 0, at, at + 3_200 >= len(pcm)), 16_000, pcm[at : at + 3_200])
        for at in range(0, len(pcm), 3_200)
    ]
    sound: list[Any] = voice if from_voice else mel_chunks(SENTENCE)
    kind = Kind.VOICE if from_voice else Kind.MEL
    config = {"source": VOICE_SOURCE} if from_voice else {}
    lips = {}
    for name in ("whole", "joined"):
        own = [replace(c, place=replace(c.place, session=name)) for c in sound]
        async with serving(bus) as stub, bus.subscribe(name, Kind.VIDEO, limit=512) as video:
            async with attached(stub, name, **config) as call:
                await frames(video, lambda c: c.live)
                for chunk in own[-2:] if name == "joined" else own:
                    await bus.publish(kind, chunk)
                if name == "joined":
                    await frames(video, lambda c: c.live and c.place.pts > 5)
                    told = [chunk.to_message() for chunk in own[4:-1]]
                    heard_so_far = ClockChunk(Place(name, 1, 0, heard * 640), 16_000)
                    resume = face_pb2.ResumeFace(
                        turn=TurnChunk(Place(name, 1, 0, 0), "text").to_message(),
                        clock=heard_so_far.to_message(),
                        **{source: told},
                    )
                    await call.write(face_pb2.FaceAttachRequest(resume=resume))
                spoken = [c for c in await play(bus, video) if not c.live]
        lips[name] = {c.place.pts: list(c.payload[2:4]) for c in spoken}
        if name == "joined":
            # Playback is taken to go on for half a second behind the clock.
            assert spoken[0].keyframe and heard <= spoken[0].place.pts <= heard + 13
    # The mouth eases out of rest into what it says; how loud the turn was before it does not know.
    eased = [pts for pts in lips["joined"].keys() & lips["whole"] if pts > min(lips["joined"]) + 2]
    assert eased
    for pts in eased:
        assert np.abs(np.subtract(lips["whole"][pts], lips["joined"][pts])).max() <= 6, pts


async def test_several_codecs_and_key_frames_on_request(bus: Bus) -> None:
    async with serving(bus) as stub, bus.subscribe("codecs", Kind.VIDEO) as video:
        async with attached(stub, "codecs", codecs=[H264, VP8]) as call:
            seen = await frames(video, lambda c: c.place.pts == 3 and c.codec == VideoCodec.VP8)
            assert [c.codec for c in seen] == [VideoCodec.H264, VideoCodec.VP8] * 4
            assert [c.number for c in seen] == [1, 1, 2, 2, 3, 3, 4, 4]
            await call.write(
                face_pb2.FaceAttachRequest(keyframe=face_pb2.KeyframeRequest(codec=VP8))
            )
            asked = await frames(video, lambda c: c.keyframe)
            assert asked[-1].codec == VideoCodec.VP8
            # What only a gateway of a later version asks for, as its bytes are.
            await call.write(face_pb2.FaceAttachRequest.FromString(b"\xfa\x3f\x00"))
            bitrate = face_pb2.SetBitrate(most_kbps=300)
            await call.write(face_pb2.FaceAttachRequest(bitrate=bitrate))
            await frames(video, lambda c: len(c.payload) == 4 + 3)
            await call.write(face_pb2.FaceAttachRequest(codecs=face_pb2.SetCodecs(codecs=[VP8])))
            came: list[VideoCodec] = []

            def vp8_alone(chunk: VideoChunk) -> bool:
                came.append(chunk.codec)
                return came[-4:] == [VideoCodec.VP8] * 4

            await frames(video, vp8_alone)
            await call.write(
                face_pb2.FaceAttachRequest(keyframe=face_pb2.KeyframeRequest(codec=H264))
            )
            error = await failing(call.read())
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "H264 is not sent" in (error.details() or "")


async def test_the_loop_shows_what_live_pictures_show(bus: Bus) -> None:
    gallery = FakeGallery()
    serves = serving(bus, gallery, idle_life_s=12)
    async with serves as stub, bus.subscribe("loop", Kind.VIDEO) as video:
        async with attached(stub, "loop", seed=0):
            seen = await frames(video, lambda c: c.place.pts >= 3)
        live = {frame.motion: frame.pose for frame in gallery.prepared if frame.at_rest}
        request = face_pb2.RenderLoopRequest(codec=H264)
        record, *parts = await answers(stub.RenderLoop(request))
        listens = stub.RenderLoop(face_pb2.RenderLoopRequest(codec=H264, listening=True))
        other = (await listens.read()).loop
        listens.cancel()
    assert (other.listening, other.pictures) == (True, 3 * record.loop.pictures)
    assert other.digest == record.loop.digest and not record.loop.listening
    assert [c.motion_frame for c in seen] == [seen[0].motion_frame + k for k in range(4)]
    assert all(c.at_rest and c.loop == record.loop.digest for c in seen)
    count = record.loop.pictures
    assert (count, record.loop.fps, record.loop.codec) == (12 * 25, 25, H264)
    pictures = [picture for part in parts for picture in part.pictures.pictures]
    keyframes = [k for k, picture in enumerate(pictures) if picture.keyframe]
    assert keyframes == list(range(0, count, 25))
    assert len(pictures) == count
    ahead = [frame for frame in gallery.prepared if frame.due_s is None]
    loop = [frame.pose for frame in ahead if not frame.listening][-count:]
    length = count // record.loop.segments
    for motion, pose in live.items():
        segment = segment_of(motion // length, record.loop.segments)
        assert loop[segment * length + motion % length] == pose


async def test_a_loop_is_drawn_once_and_not_at_every_start(tmp_path: Path) -> None:
    drawn, kept = (MetricGrowth("face_frames_total", mode=mode) for mode in ("loop", "kept"))
    gallery, folder = FakeGallery(), tmp_path / "loops"
    gallery.loops = folder

    async def loop() -> list[face_pb2.RenderLoopResponse]:
        async with serving(gallery=gallery, avatar_dir=tmp_path, idle_life_s=6) as stub:
            return await answers(stub.RenderLoop(face_pb2.RenderLoopRequest(codec=H264)))

    first = await loop()
    assert (drawn.value, kept.value) == (150, 0)
    assert await loop() == first
    assert (drawn.value, kept.value) == (151, 149), "one, to see that it is the same"
    [file] = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    assert await loop() == first
    assert drawn.value == 301, "what is damaged is drawn anew"
    assert await loop() == first
    assert drawn.value == 302


async def test_it_listens_while_it_is_told_to(bus: Bus) -> None:
    async with serving(bus) as stub, bus.subscribe("heard", Kind.VIDEO) as video:
        async with attached(stub, "heard", seed=0) as call:
            await frames(video, lambda c: c.at_rest and not c.listening)
            for phase in (face_pb2.SetAttention.LISTENING, face_pb2.SetAttention.NOBODY):
                attention = face_pb2.SetAttention(phase=phase, cue=True)
                await call.write(face_pb2.FaceAttachRequest(attention=attention))
                heard = phase == face_pb2.SetAttention.LISTENING
                await frames(video, lambda c: not c.at_rest)
                await frames(video, lambda c, heard=heard: c.at_rest and c.listening is heard)


async def test_who_draws_a_loop_rests_while_anybody_talks_to_a_face(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.face.studio._RESTS", 1e9)
    monkeypatch.setattr("services.face.studio._LONGEST_REST_S", 3600.0)
    request = face_pb2.RenderLoopRequest(codec=VP8)
    async with serving(bus, idle_life_s=6) as stub, bus.subscribe("heard", Kind.VIDEO) as video:
        async with attached(stub, "heard", seed=0) as call:
            attention = face_pb2.SetAttention(phase=face_pb2.SetAttention.LISTENING)
            await call.write(face_pb2.FaceAttachRequest(attention=attention))
            await frames(video, lambda c: c.listening)
            held = stub.RenderLoop(request)
            assert (await held.read()).WhichOneof("response") == "loop"
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(held.read(), 0.3)
            attention = face_pb2.SetAttention(phase=face_pb2.SetAttention.NOBODY)
            await call.write(face_pb2.FaceAttachRequest(attention=attention))
            await frames(video, lambda c: c.at_rest and not c.listening)
            assert len(await answers(stub.RenderLoop(request))) > 1


async def test_an_engine_that_cannot_draw_ahead_has_no_loop(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakePainter, "look", "")
    async with serving(bus) as stub, bus.subscribe("none", Kind.VIDEO) as video:
        async with attached(stub, "none", seed=0):
            (seen,) = await frames(video, lambda c: True)
        error = await failing(answers(stub.RenderLoop(face_pb2.RenderLoopRequest(codec=VP8))))
    assert seen.loop == "" and not seen.at_rest
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_face_rests_while_its_loop_is_shown_and_goes_on_from_there(bus: Bus) -> None:
    async with serving(bus) as stub, bus.subscribe("rest", Kind.VIDEO, limit=256) as video:
        async with attached(stub, "rest", seed=0) as call:
            first = (await frames(video, lambda c: True))[0]
            rest_from = first.motion_frame + 15
            idle = face_pb2.SetIdle(motion_frame=rest_from)
            await call.write(face_pb2.FaceAttachRequest(idle=idle))
            last = (await frames(video, lambda c: c.motion_frame == rest_from - 1))[-1]
            with pytest.raises(TimeoutError):
                await frames(video, lambda c: True, within_s=0.2)
            turn = TurnChunk(Place("rest", 1, 0, 0), "text", motion_frame=3000)
            await bus.publish(Kind.TURN, turn)
            await say(bus, "rest", 1, mel_chunks(SENTENCE))
            spoken = (await frames(video, lambda c: True))[0]
            assert spoken.keyframe and not spoken.live and spoken.number == last.number + 1
            assert 3001 <= spoken.motion_frame < 3050
            await bus.publish(Kind.TURN, TurnChunk(Place("rest", 2, 0, 0), "interrupt"))
            await frames(video, lambda c: c.live)
            await call.write(face_pb2.FaceAttachRequest(idle=face_pb2.SetIdle(motion_frame=0)))
            await asyncio.sleep(0.2)
            wake = face_pb2.SetIdle(live=True, motion_frame=5000)
            await call.write(face_pb2.FaceAttachRequest(idle=wake))
            woken = (await frames(video, lambda c: c.motion_frame >= 5000))[-1]
    assert woken.keyframe and woken.live and woken.motion_frame <= 5003


async def test_a_face_that_nobody_watches_makes_no_frames(bus: Bus) -> None:
    made = MetricGrowth("face_frames_total", mode="live")
    async with serving(bus) as stub, bus.subscribe("alone", Kind.VIDEO) as video:
        async with attached(stub, "alone", seed=0) as call:
            await frames(video, lambda c: c.place.pts >= 2)
            nobody = face_pb2.FaceAttachRequest(codecs=face_pb2.SetCodecs())
            await call.write(nobody)
            before = -1.0
            async with asyncio.timeout(30):
                while made.value != before:
                    before = made.value
                    await asyncio.sleep(0.3)
            again = face_pb2.FaceAttachRequest(codecs=face_pb2.SetCodecs(codecs=[VP8]))
            await call.write(again)
            seen = await frames(video, lambda c: c.codec == VideoCodec.VP8)
    assert seen[-1].keyframe


async def test_two_faces_of_one_avatar_are_elsewhere_in_its_loop(bus: Bus) -> None:
    begun = []
    async with serving(bus) as stub, bus.subscribe("each", Kind.VIDEO) as video:
        for _ in range(4):
            async with attached(stub, "each", seed=0):
                begun.append((await frames(video, lambda c: c.place.pts == 0))[-1])
            await until_free(stub, FaceSettings().slots)
    assert len({c.loop for c in begun}) == 1
    assert len({c.motion_frame for c in begun}) > 1


async def test_blendshapes_on_the_bus(bus: Bus) -> None:
    async with serving(bus) as stub, bus.subscribe("shapes", Kind.FACE) as faces:
        async with attached(stub, "shapes", blendshapes=True), asyncio.timeout(30):
            chunk = await anext(aiter(faces))
    assert isinstance(chunk, BlendshapeChunk)
    assert chunk.live and chunk.weights.shape == (52,)


async def test_a_bad_turn_fails_alone(bus: Bus) -> None:
    async with serving(bus) as stub, bus.subscribe("bad", Kind.VIDEO) as video:
        async with attached(stub, "bad", source=VOICE_SOURCE) as call:
            for seq, rate in enumerate((16_000, 24_000)):
                place = Place("bad", 1, seq, 0)
                await bus.publish(Kind.VOICE, PcmChunk(place, rate, tone(0.02)))
            async with asyncio.timeout(30):
                assert (await call.read()).turn_started.turn == 1
                failed = (await call.read()).turn_failed
            assert failed.turn == 1 and failed.code == "INVALID_ARGUMENT"
            assert "24000 after 16000" in failed.message
            await frames(video, lambda c: c.live)


async def test_two_sessions_share_nothing(bus: Bus) -> None:
    async with (
        serving(bus) as stub,
        bus.subscribe("one", Kind.VIDEO, limit=256) as one,
        bus.subscribe("two", Kind.VIDEO, limit=256) as two,
        attached(stub, "one"),
        attached(stub, "two"),
    ):
        await say(bus, "one", 1, mel_chunks(SENTENCE))
        spoken = await play(bus, one)
        silent = await frames(two, lambda c: c.place.pts >= 5)
    assert any(c.payload[3] == 255 for c in spoken)
    assert all(c.live and c.payload[2:] == b"\0\0" for c in silent)


async def test_a_face_that_cannot_be_drawn_ends_its_own_lease_alone(bus: Bus) -> None:
    gallery = FakeGallery()
    gallery.names["torn"] = False
    async with (
        serving(bus, gallery, lanes=1) as stub,
        bus.subscribe("whole", Kind.VIDEO) as video,
        attached(stub, "whole"),
        attached(stub, "torn", avatar="torn") as call,
    ):
        await frames(video, lambda c: True)
        gallery.torn.add("torn")
        error = await failing(call.read())
        seen = await frames(video, lambda c: c.place.pts >= 5)
    assert "torn is torn" in (error.details() or "")
    assert [c.number for c in seen] == list(range(seen[0].number, seen[0].number + len(seen)))


async def test_attach_needs_a_bus_and_a_config_first() -> None:
    async with serving() as stub:
        error = await failing(attach_and_read(stub, "s"))
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert "nats_url" in (error.details() or "")
        call = stub.Attach()
        await call.write(face_pb2.FaceAttachRequest(keyframe=face_pb2.KeyframeRequest(codec=H264)))
        error = await failing(call.read())
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_nothing_is_left_running_after_a_lease(bus: Bus) -> None:
    async with serving(bus) as stub:
        async with attached(stub, "first"):  # what every session shares begins with the first one
            pass
        await until_free(stub, FaceSettings().slots)
        before = asyncio.all_tasks()
        async with attached(stub, "gone"):
            of_the_lease = running_since(before)
        _, left = await asyncio.wait(of_the_lease, timeout=30)
        assert not left | running_since(before)


def running_since(before: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Without gRPC's own tasks, which come and go with each call."""
    return {task for task in asyncio.all_tasks() - before if "/grpcio/" not in repr(task)}


async def until_free(stub: Stub, slots: int) -> None:
    """Ask until so many slots are free: the server hears of a cancelled call a little later."""
    async with asyncio.timeout(30):
        while True:
            status = await stub.GetStatus(control_pb2.GetStatusRequest())
            if status.service.free_slots == slots:
                return


async def attach_and_read(stub: Stub, session: str) -> Any:
    call = stub.Attach()
    await call.write(face_pb2.FaceAttachRequest(config=face_pb2.FaceAttachConfig(session=session)))
    return await call.read()


# Avatars and status


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (None, "a photograph shows somebody, so say whose likeness it is"),
        ({"likeness": " "}, "likeness says nothing"),
        ({"agreed_to": ""}, "agreed_to says nothing"),
        ({"agreed_to": "x" * 501}, "agreed_to has 501 characters"),
        ({"likeness": "Ann\x07"}, "likeness has control characters"),
    ],
)
async def test_nobody_is_made_an_avatar_whose_consent_is_not_stated(
    change: dict[str, str] | None, words: str
) -> None:
    asked = creation("me", png_of_declared_size(8, 8))
    if change is None:
        asked.ClearField("consent")
    else:
        asked.consent.MergeFrom(face_pb2.Consent(**{k: v for k, v in change.items() if v}))
        for field in (k for k, v in change.items() if not v):
            asked.consent.ClearField(field)
    async with serving() as stub:
        error = await failing(stub.CreateAvatar(asked))
        listed = await stub.ListAvatars(face_pb2.ListAvatarsRequest())
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in str(error.details()) and len(listed.avatars) == 1


async def test_nobody_who_attaches_waits_for_a_list_of_avatars(bus: Bus) -> None:
    gallery = FakeGallery()
    async with serving(bus, gallery) as stub:
        gallery.listing.clear()
        listing = asyncio.ensure_future(stub.ListAvatars(face_pb2.ListAvatarsRequest()))
        await asyncio.to_thread(gallery.asked.wait, 30)
        async with asyncio.timeout(30), attached(stub, "meanwhile"):
            assert not listing.done()
        gallery.listing.set()
        assert len((await listing).avatars) == 1


async def test_status_names_arkits_blendshapes_in_alphabetical_order() -> None:
    async with serving(slots=3) as stub:
        status = await stub.GetStatus(control_pb2.GetStatusRequest())
    assert status.service.slots == status.service.free_slots == 3
    names = list(status.blendshapes)
    assert len({*names}) == 52 and names == sorted(names) and names[0] == "browDownLeft"


async def test_what_is_animated_in_one_go_never_overtakes_those_who_watch() -> None:
    """Its frames are due when they are asked for, by the clock of the lanes, and not before."""
    gallery = FakeGallery()
    began_s = MonotonicClock().now()
    async with serving(gallery=gallery) as stub:
        requests = [animate_config(codecs=[H264]), *map(mel_request, mel_chunks(SENTENCE))]
        assert await answers(stub.Animate(iter(requests)))
    due = [frame.due_s for frame in gallery.prepared if not frame.live]
    assert len(due) >= SENTENCE_FRAMES
    assert all(due_s is not None and due_s >= began_s for due_s in due[-SENTENCE_FRAMES:])


async def test_who_draws_the_face_himself_gets_its_pose_and_takes_no_slot(bus: Bus) -> None:
    drawn = MetricGrowth("face_frames_total", mode="live")
    posed = MetricGrowth("face_frames_total", mode="blendshapes")
    async with serving(bus, slots=1) as stub, bus.subscribe("here", Kind.VIDEO, limit=512) as video:
        only = {"codecs": [BLENDSHAPES]}
        async with attached(stub, "here", **only) as call, attached(stub, "there", **only):
            await frames(video, lambda c: c.place.pts >= 2)
            await say(bus, "here", 1, mel_chunks(SENTENCE))
            spoken = [c for c in await play(bus, video) if not c.live]
            assert [c.place.pts for c in spoken] == list(range(SENTENCE_FRAMES))
            assert {(len(c.payload), c.keyframe) for c in spoken} == {(BLENDSHAPES_BYTES, True)}
            jaw = [c.payload[ARKIT_NAMES.index("jawOpen")] for c in spoken]
            assert jaw[0] == 0 and max(jaw) > 40
            assert drawn.value == 0 and posed.value > SENTENCE_FRAMES
            status = (await stub.GetStatus(control_pb2.GetStatusRequest())).service
            assert (status.slots, status.free_slots) == (1, 1)
            # Once it is to be drawn here, it takes one.
            await call.write(face_pb2.FaceAttachRequest(codecs=face_pb2.SetCodecs(codecs=[H264])))
            await frames(video, lambda c: c.codec == VideoCodec.H264)
            status = (await stub.GetStatus(control_pb2.GetStatusRequest())).service
            assert status.free_slots == 0


async def test_a_head_is_given_once(bus: Bus, tmp_path: Path) -> None:
    for file, content in bundle_files().items():
        (tmp_path / file).write_bytes(content)
    gallery = FakeGallery()
    gallery.names["photo"], gallery.heads["built-in"] = False, tmp_path
    async with serving(bus, gallery) as stub:
        listed = (await stub.ListAvatars(face_pb2.ListAvatarsRequest())).avatars
        assert {avatar.name: avatar.head for avatar in listed} == {"built-in": True, "photo": False}
        ask = face_pb2.GetAvatarHeadRequest
        head = await stub.GetAvatarHead(ask(name="built-in"))
        assert head.content == (tmp_path / "head.glb").read_bytes()
        known = ask(name="built-in", known_sha256=head.sha256)
        assert (await stub.GetAvatarHead(known)).content == b""
        wall = await stub.GetAvatarHead(ask(name="", file=ask.FILE_BACKGROUND))
        assert wall.content == (tmp_path / "background.png").read_bytes()
        scene = json.loads((await stub.GetAvatarHead(ask(name="", file=ask.FILE_SCENE))).content)
        assert scene["licence"] == "CC0-1.0" and scene["light"]["baked"] is True
        assert scene["framing"] == {
            "position": [0.0, 0.0, 1.5],
            "target": [0.0, 0.0, 0.0],
            "vertical_fov_deg": 20.0,
        }
        for name in ("photo", "nobody"):
            error = await failing(stub.GetAvatarHead(ask(name=name)))
            assert error.code() is grpc.StatusCode.NOT_FOUND
