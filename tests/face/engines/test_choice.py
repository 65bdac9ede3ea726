"""Which engine draws, by the settings; and Wav2Lip as a client of the service meets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from services.face.engines.choice import open_face_engine
from services.face.settings import FaceSettings
from tests.face.draw.test_animator import SENTENCE, mel_chunks
from tests.face.engines.fake_mouths import FakeWav2Lip, wav2lip_engine
from tests.face.serving import (
    animate_config,
    answers,
    attached,
    drawn_by,
    frames,
    mel_request,
    play,
    say,
    tone,
    voice_requests,
)
from tests.face.test_servicer_studio import decoded
from visavis.serving.errors import ModelStoreError, SettingsError, UnknownNameError
from visavis.serving.settings import load_settings
from visavis.v1 import control_pb2
from visavis.wire.bus import Bus
from visavis.wire.media import PcmChunk, Place, TurnChunk
from visavis.wire.subjects import Kind


def test_without_settings_the_photo_warp_draws() -> None:
    engine = open_face_engine(FaceSettings())
    assert engine.name == "warp"
    assert not engine.needs_voice and not engine.states


def test_the_size_of_heads_is_read_where_settings_are_text() -> None:
    assert load_settings(FaceSettings, ["--head-size", "1024"], prog="face").head_size == 1024
    with pytest.raises(SettingsError, match="256, 512, 768 or 1024"):
        load_settings(FaceSettings, ["--head-size", "500"], prog="face")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"engine_bundle": "whisper-base"}, "the engine warp takes none"),
        ({"engine": "wav2lip"}, "needs the name of a bundle; `visavis bundle make wav2lip"),
        (
            {"engine": "wav2lip", "engine_bundle": "whisper-base"},
            "whisper-base is for the task asr .* needs one for face_mouth",
        ),
        (
            {"engine": "tha3", "engine_bundle": "audio-to-face"},
            "audio-to-face is for the task face .* needs one for face_character",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        open_face_engine(FaceSettings(**fields))


def test_a_bundle_that_nobody_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises((ModelStoreError, UnknownNameError), match="no bundle named 'my-mouths'"):
        open_face_engine(
            FaceSettings(engine="wav2lip", engine_bundle="my-mouths", model_dir=tmp_path)
        )


async def test_animate_draws_the_mouth_from_the_voice(tmp_path: Path) -> None:
    """A network that paints the lower half bright while it hears something."""

    def bright_when_loud(mel: Any, face: Any) -> Any:
        picture = face[:, 3:].copy()
        loud = mel.max(axis=(1, 2, 3)) > 0
        picture[loud, :, 60:84, 30:66] = 1.0
        return picture

    quiet = np.zeros(8000, np.int16)
    voice = np.concatenate([quiet, tone(0.5), quiet])
    async with drawn_by(wav2lip_engine(FakeWav2Lip(bright_when_loud), tmp_path)) as stub:
        call = stub.Animate(iter([animate_config(seed=1), *voice_requests(voice)]))
        videos = [answer.video for answer in await answers(call)]
        status = (await stub.GetStatus(control_pb2.GetStatusRequest())).service
    assert len(videos) == 38 and videos[-1].header.last
    pictures = decoded("h264", [video.data for video in videos])
    mouth = [picture[265:310, 220:280].mean() for picture in pictures]
    assert min(mouth[16:22]) > max(mouth[:6] + mouth[32:]) + 25
    assert [engine.bundle for engine in status.engines] == ["audio_to_face", "fake-wav2lip"]


async def test_mel_alone_is_not_enough_for_it(tmp_path: Path) -> None:
    chunks = [mel_request(chunk) for chunk in mel_chunks(SENTENCE)]
    async with drawn_by(wav2lip_engine(FakeWav2Lip(), tmp_path)) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await answers(stub.Animate(iter([animate_config(), *chunks])))
        both = [animate_config(), *chunks, *voice_requests(tone(0.2))]
        assert len(await answers(stub.Animate(iter(both)))) == 5
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "drawn from the voice" in (caught.value.details() or "")


async def test_attached_it_speaks_is_interrupted_and_speaks_again(bus: Bus, tmp_path: Path) -> None:
    network = FakeWav2Lip()

    async def speak(turn: int, *, last: bool) -> None:
        """Mel and voice of a second, as the synthesis sends them; the mel is not needed."""
        await say(bus, "lips", turn, mel_chunks(SENTENCE)[:1])
        for seq in range(5):
            ends = last and seq == 4
            chunk = PcmChunk(Place("lips", turn, seq, 3200 * seq, ends), 16_000, tone(0.2))
            await bus.publish(Kind.VOICE, chunk)

    async with (
        drawn_by(wav2lip_engine(network, tmp_path), bus) as stub,
        bus.subscribe("lips", Kind.VIDEO, limit=512) as video,
        attached(stub, "lips") as call,
    ):
        await frames(video, lambda c: c.place.pts >= 2)
        await speak(1, last=False)
        begun = await frames(video, lambda c: c.place.turn == 1)
        assert begun[-1].keyframe
        assert (await call.read()).turn_started.turn == 1
        await bus.publish(Kind.TURN, TurnChunk(Place("lips", 2, 0, 0), "interrupt"))
        await speak(2, last=True)
        spoken = [c.place.pts for c in await play(bus, video) if c.place.turn == 2]
    # A busy machine leaves out what would come late.
    assert spoken == sorted({*spoken}) and spoken[-1] == 24
    assert max(network.batches) > 1
