"""Clients of Riva, Wyoming and Audio2Face-3D as their users write them. Nothing of visavis is
imported.

Run with an interpreter that has them: addresses of asr, tts and face, the key, Wyoming's port.
Prints what was seen as one JSON object.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import time
import wave
from collections.abc import Iterator
from typing import Any

import grpc
import riva.client
from grpc_health.v1 import health_pb2, health_pb2_grpc
from nvidia_ace.audio_pb2 import AudioHeader
from nvidia_audio2face_3d import audio2face_pb2_grpc
from nvidia_audio2face_3d import messages_pb2 as a2f
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeVoice,
)

SPOKEN = "The museum opens at nine. Please take the stairs on the left, and mind the step."
RATE_HZ = 16_000


def wav(pcm: bytes, rate: int) -> bytes:
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(pcm)
    return written.getvalue()


def code_of(call: Any) -> str:
    try:
        call()
    except grpc.RpcError as error:
        return str(error.code().name)  # type: ignore[attr-defined]
    return ""


def riva_voice(tts: Any) -> dict[str, Any]:
    config = tts.stub.GetRivaSynthesisConfig(
        riva.client.proto.riva_tts_pb2.RivaSynthesisConfigRequest(),
        metadata=tts.auth.get_auth_metadata(),
    )
    voices = [
        f"{model.parameters['voice_name']}.{voice.split(':')[0]}"
        for model in config.model_config
        for voice in model.parameters["subvoices"].split(",")
    ]
    whole = tts.synthesize(SPOKEN, voices[0], "en-US", sample_rate_hz=44_100)
    started = time.monotonic()
    online, first_s = b"", 0.0
    for answer in tts.synthesize_online(SPOKEN.split(" P"), language_code="en-US"):
        first_s = first_s or time.monotonic() - started
        online += answer.audio
    return {
        "voices": voices,
        "whole_s": len(whole.audio) / 2 / 44_100,
        "online_s": len(online) / 2 / 22_050,
        "first_s": first_s,
        "online_took_s": time.monotonic() - started,
        "unknown": code_of(lambda: tts.synthesize("Hi.", "English-US.Female-1")),
    }


def riva_ears(asr: Any, pcm: bytes) -> dict[str, Any]:
    file = wav(pcm, RATE_HZ)
    raw = riva.client.RecognitionConfig(
        encoding=riva.client.AudioEncoding.LINEAR_PCM,
        sample_rate_hertz=RATE_HZ,
        language_code="en-US",
    )
    timed = riva.client.RecognitionConfig(enable_word_time_offsets=True)
    whole = asr.offline_recognize(file, timed).results[0].alternatives[0]

    def streamed(config: Any, data: bytes) -> tuple[str, bool]:
        finals, looks = "", False
        chunks: Iterator[bytes] = (data[i : i + 3200] for i in range(0, len(data), 3200))
        streaming = riva.client.StreamingRecognitionConfig(config=config, interim_results=True)
        for answer in asr.streaming_response_generator(chunks, streaming):
            for result in answer.results:
                if result.is_final:
                    finals += result.alternatives[0].transcript
                looks = looks or (not result.is_final and result.stability < 1)
        return finals, looks

    from_file, _ = streamed(riva.client.RecognitionConfig(), file)
    from_raw, looks = streamed(raw, pcm)
    config = asr.stub.GetRivaSpeechRecognitionConfig(
        riva.client.proto.riva_asr_pb2.RivaSpeechRecognitionConfigRequest(),
        metadata=asr.auth.get_auth_metadata(),
    )
    return {
        "whole": whole.transcript,
        "words": [[w.word, w.start_time, w.end_time] for w in whole.words],
        "from_file": from_file,
        "from_raw": from_raw,
        "looks": looks,
        "models": sorted({m.parameters["type"] for m in config.model_config}),
        "no_header": code_of(lambda: asr.offline_recognize(pcm, riva.client.RecognitionConfig())),
    }


def use_riva(asr_at: str, tts_at: str, key: str) -> dict[str, Any]:
    shown = [["authorization", f"Bearer {key}"]]
    asr = riva.client.ASRService(riva.client.Auth(uri=asr_at, metadata_args=shown))
    tts = riva.client.SpeechSynthesisService(riva.client.Auth(uri=tts_at, metadata_args=shown))
    stranger = riva.client.SpeechSynthesisService(riva.client.Auth(uri=tts_at))
    pcm = tts.synthesize(SPOKEN, language_code="en-US", sample_rate_hz=RATE_HZ).audio
    with grpc.insecure_channel(asr_at) as channel:
        asked = health_pb2.HealthCheckRequest(service="nvidia.riva.asr.RivaSpeechRecognition")
        health = health_pb2_grpc.HealthStub(channel).Check(asked).status
    return {
        "health": health,
        "voice": riva_voice(tts),
        "ears": riva_ears(asr, pcm),
        "stranger": code_of(lambda: stranger.synthesize("Hi.")),
    }


async def events(client: AsyncTcpClient, last: str) -> list[Event]:
    seen: list[Event] = []
    async with asyncio.timeout(60):
        while not seen or seen[-1].type != last:
            event = await client.read_event()
            assert event is not None, [e.type for e in seen]
            seen.append(event)
    return seen


async def wyoming_voice(client: AsyncTcpClient) -> tuple[bytes, dict[str, Any]]:
    await client.write_event(Synthesize(SPOKEN, SynthesizeVoice(language="en")).event())
    whole = await events(client, "audio-stop")
    pcm = b"".join(AudioChunk.from_event(e).audio for e in whole if AudioChunk.is_type(e.type))
    start = AudioStart.from_event(whole[0])
    await client.write_event(SynthesizeStart().event())
    for piece in ("The museum opens at nine. ", "Please take the stairs", " on the left."):
        await client.write_event(SynthesizeChunk(piece).event())
    early = await events(client, "audio-chunk")
    await client.write_event(Synthesize("All of it, for old servers.").event())
    await client.write_event(SynthesizeStop().event())
    streamed = [*early, *await events(client, "synthesize-stopped")]
    await client.write_event(Synthesize("Hi.", SynthesizeVoice(name="nobody")).event())
    error = (await events(client, "error"))[-1]
    return pcm, {
        "form": [start.rate, start.width, start.channels],
        "whole_s": len(pcm) / 2 / start.rate,
        "streamed": list(dict.fromkeys(e.type for e in streamed)),
        "error": error.data["code"],
    }


async def use_wyoming(port: int) -> dict[str, Any]:
    async with AsyncTcpClient("127.0.0.1", port) as client:
        await client.write_event(Describe().event())
        info = Info.from_event((await events(client, "info"))[0])
        await client.write_event(Ping("there?").event())
        pong = (await events(client, "pong"))[0].data["text"]
        pcm, voice = await wyoming_voice(client)
    rate = voice["form"][0]
    async with AsyncTcpClient("127.0.0.1", port) as client:
        await client.write_event(Transcribe(language="en").event())
        await client.write_event(AudioStart(rate, 2, 1).event())
        for start in range(0, len(pcm), 4096):
            chunk = AudioChunk(rate, 2, 1, pcm[start : start + 4096])
            await client.write_event(chunk.event())
        await client.write_event(AudioStop().event())
        heard = await events(client, "transcript-stop")
    async with AsyncTcpClient("127.0.0.1", port) as client:
        asked = Transcript("What is a museum?", {"conversation_id": "c"}, "en")
        await client.write_event(asked.event())
        handled = await events(client, "handled-stop")
    return {
        "programs": [len(info.asr), len(info.tts), len(info.handle)],
        "languages": info.asr[0].models[0].languages,
        "voices": [voice.name for voice in info.tts[0].voices],
        "pong": pong,
        "voice": voice,
        "heard": Transcript.from_event(heard[-2]).text,
        "heard_kinds": list(dict.fromkeys(e.type for e in heard)),
        "handled": [e.data.get("text") for e in handled if e.type == "handled"],
        "handled_kinds": list(dict.fromkeys(e.type for e in handled)),
    }


def clip(pcm: bytes, channels: int = 1, **params: Any) -> Iterator[Any]:
    header = a2f.AudioWithEmotionStreamHeader(
        audio_header=AudioHeader(
            samples_per_second=RATE_HZ, bits_per_sample=16, channel_count=channels
        ),
        blendshape_params=a2f.BlendShapeParameters(**params),
    )
    yield a2f.AudioWithEmotionStream(audio_stream_header=header)
    for start in range(0, len(pcm), 2 * RATE_HZ):
        part = a2f.AudioWithEmotion(audio_buffer=pcm[start : start + 2 * RATE_HZ])
        yield a2f.AudioWithEmotionStream(audio_with_emotion=part)
    yield a2f.AudioWithEmotionStream(end_of_audio=a2f.AudioWithEmotionStream.EndOfAudio())


def use_audio2face(face_at: str, key: str, pcm: bytes) -> dict[str, Any]:
    shown = (("authorization", f"Bearer {key}"),)
    quiet = bytes(2 * RATE_HZ)
    with grpc.insecure_channel(face_at) as channel:
        stub = audio2face_pb2_grpc.A2FControllerServiceStub(channel)
        started = time.monotonic()
        told = list(stub.ProcessAudioStream(clip(quiet + pcm), metadata=shown))
        took_s = time.monotonic() - started
        shut = list(
            stub.ProcessAudioStream(
                clip(pcm, bs_weight_multipliers={"JawOpen": 0.0}), metadata=shown
            )
        )
        stereo = code_of(lambda: list(stub.ProcessAudioStream(clip(pcm, 2), metadata=shown)))
        stranger = code_of(lambda: list(stub.ProcessAudioStream(clip(pcm))))
    names = list(told[0].animation_data_stream_header.skel_animation_header.blend_shapes)

    def jaw(answers: list[Any]) -> list[float]:
        frames = [a.animation_data for a in answers if a.HasField("animation_data")]
        place = names.index("JawOpen")
        return [f.skel_animation.blend_shape_weights[0].values[place] for f in frames]

    opened = jaw(told)
    return {
        "names": [names[0], names[17], names[-1], len(names)],
        "frames": len(opened),
        "seconds": len(quiet + pcm) / 2 / RATE_HZ,
        "took_s": took_s,
        "last": told[-1].status.code,
        "quiet": max(opened[:25]),
        "loud": sorted(opened[35:])[9 * len(opened[35:]) // 10],
        "shut": max(jaw(shut)),
        "stereo": stereo,
        "stranger": stranger,
    }


def main() -> None:
    asr_at, tts_at, face_at, key, port = sys.argv[1:]
    seen = {"riva": use_riva(asr_at, tts_at, key)}
    shown = [["authorization", f"Bearer {key}"]]
    tts = riva.client.SpeechSynthesisService(riva.client.Auth(uri=tts_at, metadata_args=shown))
    pcm = tts.synthesize(SPOKEN, sample_rate_hz=RATE_HZ).audio
    seen["audio2face"] = use_audio2face(face_at, key, pcm)
    seen["wyoming"] = asyncio.run(use_wyoming(int(port)))
    print(json.dumps(seen))  # noqa: T201


if __name__ == "__main__":
    main()
