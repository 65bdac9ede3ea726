"""Weights, pictures, settings and sound: files that somebody has put on the disk, or uploads."""

from __future__ import annotations

import asyncio
import atexit
import io
import json
import pickle
import struct
import tarfile
import tempfile
import wave
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from hypothesis import strategies as st

from gateway.answers.book import read_book
from gateway.openai.errors import RefusedError
from gateway.openai.sound_files import open_encoder, samples_of
from gateway.playout.pictures import ReleasedPicture
from gateway.playout.sinks.fmp4 import Muxer, init_segment
from gateway.playout.sound import AacEncoder
from gateway.settings import GatewaySettings
from services.face.avatar.avatar import load_avatar, read_about
from services.face.avatar.making.decoding import Decoder as PictureDecoder
from services.face.avatar.making.decoding import Reading, check_picture
from services.face.avatar.packing import pack, unpacked
from services.face.avatar.store import DEFAULT_AVATAR
from services.face.engines.head.bundle import read_bundle
from services.face.engines.head.framing import framed
from services.face.engines.head.model import model_of
from tests.bundles.gguf.small_gguf import small_model
from tests.face.engines.made_head import bundle_files
from tests.fuzz.decoder import Decoder
from tests.fuzz.inputs import as_json, broken, told_wrongly
from tests.gateway.media import PictureEncoder, tone
from visavis.bundles.formats.ctranslate2 import read_variables
from visavis.bundles.formats.safetensors import write_safetensors
from visavis.bundles.formats.tflite import TfliteWeights
from visavis.bundles.formats.weights import read_json, read_weights
from visavis.bundles.gguf.header import GgufError, read_header
from visavis.bundles.gguf.layout import rewrite, to_lay_out, written_bytes
from visavis.bundles.store.manifest import parse_manifest
from visavis.bundles.store.pulling.build import WrongContentError, copy_member
from visavis.serving.errors import (
    InvalidInputError,
    ModelStoreError,
    SettingsError,
)
from visavis.serving.settings import load_settings
from visavis.tools.bench.visitor.clips import read_mono
from visavis.tools.bench.visitor.websocket import FragmentReader
from visavis.tools.plan.inventory import inventory_of

_ROOT = Path(__file__).parents[2]
_CHECKPOINTS = _ROOT / "tests" / "bundles" / "families" / "files"
SHIPPED_AVATAR = _ROOT / "services" / "face" / "avatars" / DEFAULT_AVATAR
_FOLDER = tempfile.TemporaryDirectory(prefix="visavis-fuzz-")
atexit.register(_FOLDER.cleanup)


def _as_file(read: Callable[[Path], object], name: str) -> Callable[[bytes], None]:
    """`read`, of a file that holds the bytes."""

    def feed(content: bytes) -> None:
        path = Path(_FOLDER.name) / name
        path.write_bytes(content)
        read(path)

    return feed


def _written(write: Callable[[Path], object], name: str = "seed") -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()


# ------------------------------------------------------------ weights

_ARRAYS = {
    "a.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b": np.arange(3, dtype=np.int64),
    "none": np.zeros((0, 4), np.float16),
}


def _npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, **_ARRAYS)
    compressed = io.BytesIO()
    np.savez_compressed(compressed, **_ARRAYS)
    return file.getvalue()


def _ctranslate2() -> bytes:
    def name(text: str) -> bytes:
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    values = np.arange(6, dtype=np.float32)
    tensor = struct.pack("<BIIBI", 2, 2, 3, 0, values.nbytes) + values.tobytes()
    variables = struct.pack("<I", 1) + name("encoder/weight") + tensor
    aliases = struct.pack("<I", 1) + name("decoder/weight") + name("encoder/weight")
    return struct.pack("<I", 6) + name("WhisperSpec") + struct.pack("<I", 3) + variables + aliases


def small_gguf() -> bytes:
    """A model of one layer."""
    return _written(small_model)


def _lay_out(path: Path) -> None:
    """As an LLM's weights are laid out anew at their first load, but for the file that is made."""
    with path.open("rb") as file:
        header = read_header(file)
        types = to_lay_out(header.tensors)
        if written_bytes(header, types, path.stat().st_size) > 1 << 24:
            return  # a claim that the disk's room is compared with
        rewrite(
            file,
            header,
            io.BytesIO(),
            types,
            on_fraction=lambda fraction: None,
            cancelled=lambda: False,
        )


def _tflite(path: Path) -> None:
    TfliteWeights(path).kernel("dense")


def _small_tflite() -> bytes:
    """A graph of one dense layer."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    def tensor(name: str, shape: list[int], buffer: int) -> Any:
        made = schema.TensorT()
        made.name, made.shape, made.buffer, made.type = name, shape, buffer, 0
        return made

    model, graph, operator = schema.ModelT(), schema.SubGraphT(), schema.OperatorT()
    code, full, empty = schema.OperatorCodeT(), schema.BufferT(), schema.BufferT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.FULLY_CONNECTED
    full.data = np.frombuffer(np.arange(6, dtype=np.float32).tobytes(), np.uint8)
    operator.opcodeIndex, operator.inputs, operator.outputs = 0, [0, 1], [2]
    graph.tensors = [tensor("in", [1, 3], 0), tensor("w", [2, 3], 1), tensor("dense/x", [1, 2], 0)]
    graph.operators, graph.inputs, graph.outputs = [operator], [0], [2]
    model.version, model.operatorCodes = 3, [code]
    model.subgraphs, model.buffers = [graph], [empty, full]
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _zip(compression: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("pkg/model.onnx", b"weights" * 300)
        archive.writestr("pkg/other", b"x")
    return file.getvalue()


def _tar(mode: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
        entry = tarfile.TarInfo("./pkg/model.onnx")
        entry.size = 2100
        archive.addfile(entry, io.BytesIO(b"weights" * 300))
    return file.getvalue()


def _member(path: Path) -> None:
    taken = bytearray()

    def take(block: bytes) -> None:
        taken.extend(block)
        assert len(taken) <= 1 << 28

    copy_member(path, "pkg/model.onnx", take)


_MANIFEST = (_ROOT / "visavis/bundles/store/catalog/smollm2-135m.toml").read_bytes()


def _manifest(content: bytes) -> None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return  # it ships with the product, as text
    parse_manifest(text, "bundle.toml")


# ------------------------------------------------------------ pictures and avatars


def _pictures() -> list[bytes]:
    rgb = np.random.default_rng(1).integers(0, 255, (24, 32, 3), np.uint8)
    kinds: tuple[tuple[str, list[int]], ...] = (
        (".png", []),
        (".jpg", []),
        (".jpg", [int(cv2.IMWRITE_JPEG_PROGRESSIVE), 1]),
        (".webp", []),
        (".webp", [int(cv2.IMWRITE_WEBP_QUALITY), 101]),
    )
    return [cv2.imencode(suffix, rgb, options)[1].tobytes() for suffix, options in kinds]


_PICTURE_WORDS = (
    b"\xff\xd8", b"\xff\xda\0\x02", b"\xff\xc0\0\x11\x08\xff\xff\xff\xff", b"\xff" * 64, b"IHDR",
    b"IEND",
    b"VP8X\0\0\0\0", b"RIFF\0\0\0\0WEBP", b"acTL", b"Exif\0\0",
)  # fmt: skip


def _decode(content: bytes) -> None:
    asyncio.run(PictureDecoder(5.0).decode(content, Reading.COLOUR))


_AVATAR_FILES = ("avatar.toml", "mesh.npz", "matte.png")


def _avatar(given: tuple[str, bytes]) -> None:
    """One file of a folder is another one: somebody's disk, or what replicas share."""
    name, content = given
    with tempfile.TemporaryDirectory(dir=_FOLDER.name) as folder:
        for path in SHIPPED_AVATAR.iterdir():
            (Path(folder) / path.name).symlink_to(path)
        (Path(folder) / name).unlink()
        (Path(folder) / name).write_bytes(content)
        read_about(Path(folder))
        load_avatar(Path(folder))


_AVATAR_INPUTS = st.sampled_from(_AVATAR_FILES).flatmap(
    lambda name: st.tuples(st.just(name), broken([(SHIPPED_AVATAR / name).read_bytes()]))
)


_HEAD = bundle_files()
_HEAD_ALONE = {"head.toml": b'licence = "CC0-1.0"', "head.glb": _HEAD["head.glb"]}
_HEAD_INPUTS = st.sampled_from(
    [(whole, name) for whole in (_HEAD, _HEAD_ALONE) for name in whole]
).flatmap(
    lambda one: st.tuples(
        st.just(one[0]),
        st.just(one[1]),
        broken([one[0][one[1]]], [b"[light]", b"glTF", b'"count":']),
    )
)


def _head(given: tuple[dict[str, bytes], str, bytes]) -> None:
    """One file of a bundle is another one."""
    whole, name, content = given
    model_of(read_bundle(framed({**whole, name: content})), 256)


def _packed() -> bytes:
    return pack({name: SHIPPED_AVATAR / name for name in ("avatar.toml", "matte.png")})


# ------------------------------------------------------------ settings and answers

_ANSWERS = {
    "answers": [
        {"language": "en", "questions": ["When are you open?"], "answer": "From nine.",
        "persona": "*"},
        {"language": "zh", "questions": ["几点开门？"], "answer": "九点。", "until": "2030-01-01"},
    ],
    "welcome": [{"language": "en", "text": "Hello!"}],
}  # fmt: skip
_ANSWERS_TOML = b"""
[[answers]]
language = "en"
questions = ["When are you open?"]
answer = "From nine."
until = 2030-12-31
[[welcome]]
language = "en"
text = "Hello!"
"""
_TOML_WORDS = (
    b"[[answers]]\n", b"[answers]\n", b'"""', b"a.b.c.d = 1\n", b"a = " + b"[" * 5000,
    b"a = " + b"{b = " * 3000,
    b"a" + b".b" * 5000 + b" = 1\n", b"1979-99-99", b"0x", b"\\u0000", b"inf",
)  # fmt: skip
_SETTINGS = b"""
[gateway]
port = 8080
max_sessions = 4
allowed_hosts = ["example.org"]
api_key = "secret"
upload_limit_mb = 3.5
[asr]
device = "cpu"
"""


def _settings(path: Path) -> None:
    load_settings(GatewaySettings, ["--config", str(path)], prog="visavis gateway")


_INVENTORY = {
    "currency": "EUR",
    "nodes": [
        {"name": "box", "cores": 16, "memory_gb": 64, "price_per_hour": 1.2, "count": 2},
        {"name": "gpu", "cores": 8, "memory_gb": 32, "gpus": [{"model": "L4", "memory_gb": 24}]},
    ],
}


# ------------------------------------------------------------ sound and film


def _wav(rate_hz: int, channels: int, width: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setframerate(rate_hz)
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.writeframes(bytes(range(240)) * 8)
    return file.getvalue()


def _spoken(name: str) -> bytes:
    encoder = open_encoder(name, 24_000)
    return encoder.feed(tone(6000)) + encoder.finish()


def _film() -> list[bytes]:
    """An init segment, and fragments behind it."""
    encoder, muxer, aac = PictureEncoder(), Muxer(), AacEncoder(0)
    parts = [muxer.picture(ReleasedPicture(encoder.picture(1, i), 3600 * i)) for i in range(3)]
    packets = aac.encode(tone(9600))
    assert muxer.sets is not None
    head = init_segment(muxer.sets, muxer.width, muxer.height, aac.config)
    sound = [muxer.sound(packet).payload for packet in packets[1:4]]
    return [head, *(part.payload for part in parts if part), *sound]


_FRAGMENTS = _film()
_BOXES = tuple(
    word + kind
    for word in (b"\0\0\0\x08", b"\0\0\0\0", b"\xff\xff\xff\xff")
    for kind in (b"moov", b"traf", b"trun", b"mdat", b"tfhd", b"stsd", b"mdhd")
)


def _watch(messages: list[bytes]) -> None:
    reader = FragmentReader()
    for at, message in enumerate(messages):
        reader.take_apart(message, float(at))


_WATCH_INPUTS = st.builds(
    lambda head, rest: [head, *rest],
    st.one_of(st.just(_FRAGMENTS[0]), broken(_FRAGMENTS[:1], _BOXES)),
    st.lists(broken(_FRAGMENTS, _BOXES), min_size=1, max_size=3),
)


def _weights_decoders() -> tuple[Decoder, ...]:
    whom = "a user's own weights; `visavis bundle make`"
    numpy = partial(_as_file, read_weights)
    safetensors = _written(lambda path: write_safetensors(path, _ARRAYS))
    entry = json.loads(safetensors[8 : 8 + struct.unpack("<Q", safetensors[:8])[0]])

    def headed(header: bytes) -> bytes:
        return struct.pack("<Q", len(header)) + header + bytes(200)

    return (
        Decoder(
            "safetensors",
            whom,
            st.one_of(broken([safetensors]), as_json(told_wrongly([entry])).map(headed)),
            numpy("w.safetensors"),
            (InvalidInputError,),
        ),
        Decoder("npz", whom, broken([_npz()]), numpy("w.npz"), (InvalidInputError,)),
        Decoder(
            "torch-checkpoint",
            whom,
            broken(
                [(_CHECKPOINTS / name).read_bytes() for name in ("zip.pt", "old.pt")],
                [
                    pickle.dumps({"a": 1}),
                    b"cos\nsystem\n(S'x'\ntR.",
                    b"\x8a\xff",
                    b"archive/data.pkl",
                ],
            ),
            numpy("w.pt"),
            (InvalidInputError,),
        ),
        Decoder(
            "ctranslate2",
            "a pulled Whisper bundle, or a user's",
            broken([_ctranslate2()]),
            _as_file(lambda path: read_variables(path, "WhisperSpec"), "model.bin"),
            (ModelStoreError,),
        ),
        Decoder(
            "gguf",
            "a user's own language model",
            broken([small_gguf()], [b"general.alignment", b"GGUF"]),
            _as_file(_lay_out, "model.gguf"),
            (GgufError,),
        ),
        Decoder(
            "tflite",
            "a pulled bundle of face landmarks or voices",
            broken([_small_tflite()]),
            _as_file(_tflite, "model.tflite"),
            (ModelStoreError,),
            share=0.5,
        ),
        Decoder(
            "weights-json",
            whom,
            as_json(told_wrongly([{"hidden": 3, "names": ["a"]}])),
            _as_file(read_json, "config.json"),
            (InvalidInputError,),
            share=0.5,
        ),
    )


def _disk_decoders() -> tuple[Decoder, ...]:
    zips = [_zip(zipfile.ZIP_STORED), _zip(zipfile.ZIP_DEFLATED), _zip(zipfile.ZIP_LZMA)]
    archives = [*zips, *(_tar(mode) for mode in ("w", "w:gz", "w:xz"))]
    return (
        Decoder(
            "package-archive",
            "a package registry, before the digest is compared",
            broken(archives, [b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"]),
            _as_file(_member, "archive"),
            (WrongContentError,),
        ),
        Decoder(
            "bundle-manifest",
            "who adds a bundle to the catalogue",
            broken([_MANIFEST], _TOML_WORDS),
            _manifest,
            (ModelStoreError,),
            share=0.5,
        ),
        Decoder(
            "picture-header",
            "a visitor's upload",
            broken(_pictures(), _PICTURE_WORDS),
            check_picture,
            (InvalidInputError,),
            share=2,
        ),
        Decoder(
            "picture",
            "a visitor's upload, in a process of its own",
            broken(_pictures(), _PICTURE_WORDS),
            _decode,
            (InvalidInputError,),
            share=0.02,
        ),
        Decoder(
            "packed-avatar",
            "the object store that replicas share",
            broken([_packed(), *zips], [b"PK\x03\x04", b"PK\x01\x02", b"avatar.toml"]),
            lambda content: unpacked(content, ("avatar.toml", "matte.png")),
            (ValueError,),
        ),
        Decoder(
            "avatar-folder",
            "the avatar folder; the object store that replicas share",
            _AVATAR_INPUTS,
            _avatar,
            (InvalidInputError,),
            share=0.2,
        ),
        Decoder(
            "head-bundle",
            "a visitor's upload, in a process of its own; the object store that replicas share",
            _HEAD_INPUTS,
            _head,
            (InvalidInputError,),
            share=0.2,
        ),
        Decoder(
            "answers-json",
            "the operator, in `--answers`",
            as_json(told_wrongly([_ANSWERS])),
            _as_file(read_book, "answers.json"),
            (InvalidInputError,),
        ),
        Decoder(
            "answers-toml",
            "the operator, in `--answers`",
            broken([_ANSWERS_TOML], _TOML_WORDS),
            _as_file(read_book, "answers.toml"),
            (InvalidInputError,),
        ),
        Decoder(
            "settings-toml",
            "the operator, in `--config`",
            broken([_SETTINGS], _TOML_WORDS),
            _as_file(_settings, "visavis.toml"),
            (SettingsError,),
            share=0.2,
        ),
        Decoder(
            "plan-inventory",
            "the operator, in `visavis plan --gpus`",
            told_wrongly([_INVENTORY]),
            lambda told: inventory_of(told, "inventory.yaml"),
            (InvalidInputError,),
        ),
        Decoder(
            "sound-file",
            "who measures, in `visavis bench`; `visavis ask`",
            broken(
                [_wav(16_000, 1, 2), _wav(44_100, 2, 3), _wav(8000, 1, 1)],
                [b"RIFF", b"data", b"fmt "],
            ),
            _as_file(lambda path: read_mono(path, 16_000), "sound.wav"),
            (InvalidInputError,),
            share=0.5,
        ),
        Decoder(
            "recording",
            "an app, by OpenAI's API",
            broken(
                [_wav(16_000, 1, 2), *(_spoken(name) for name in ("mp3", "opus", "flac", "aac"))],
                [b"RIFF", b"OggS", b"fLaC", b"ID3", b"#EXTM3U", b"ffconcat", b"file:"],
            ),
            samples_of,
            (RefusedError,),
            share=0.5,
        ),
        Decoder(
            "live-film",
            "the gateway, read by `visavis bench`",
            _WATCH_INPUTS,
            _watch,
            (InvalidInputError,),
        ),
    )


DECODERS = (*_weights_decoders(), *_disk_decoders())
