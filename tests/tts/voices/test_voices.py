"""The real voices: lengths, repeatability, pieces equal to the whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from services.tts.prosody import Prosody
from services.tts.sound import HOP_SAMPLES, Block, log_mel
from services.tts.speech_options import SpeechOptions
from services.tts.synthesizer import SpeechPiece, Synthesizer
from services.tts.text.chunker import Pause, Phrase
from services.tts.text.mandarin import BakerPhonemes
from services.tts.text.surroundings import Surroundings
from services.tts.voices.english import EnglishVoice
from services.tts.voices.mandarin import (
    CONTEXT_FRAMES,
    MAX_FRAMES,
    MAX_SYMBOLS,
    MandarinVoice,
    split_symbols,
)
from services.tts.voices.opening import open_synthesizer
from tests.rows import together
from visavis.engine import Engine, Resident, TensorSpec, open_engine
from visavis.engine.base import Tensors
from visavis.engine.ladder import LadderEngine, Rung
from visavis.engine.rows import RowAsk, alone
from visavis.serving.errors import UnfitShapeError

Bundles = Callable[[str], Path]


@pytest.fixture(scope="module")
def engines() -> dict[Path, Engine]:
    """Those of the synthesizer, by their files."""
    return {}


@pytest.fixture(scope="module")
def synthesizer(bundle: Bundles, engines: dict[Path, Engine]) -> Iterator[Synthesizer]:
    bundle("hibari-en"), bundle("fastspeech2-mbmelgan-zh")

    def noted(file: Path) -> Engine:
        return engines.setdefault(file, open_engine(file))

    with open_synthesizer(open_engine=noted) as opened:
        yield opened


@pytest.fixture(scope="module")
def mandarin(
    bundle: Bundles, synthesizer: Synthesizer, engines: dict[Path, Engine]
) -> MandarinVoice:
    folder = bundle("fastspeech2-mbmelgan-zh")
    names = ("encoder", "decoder", "vocoder")
    encoder, decoder, vocoder = (engines[folder / f"{name}.onnx"] for name in names)
    return MandarinVoice(encoder, decoder, vocoder, folder / "mapper.json")


@pytest.fixture(scope="module")
def phonemes(mandarin: MandarinVoice) -> BakerPhonemes:
    return mandarin.phonemes


def voice_of(pieces: list[SpeechPiece]) -> np.ndarray:
    return np.concatenate([piece.voice for piece in pieces])


@pytest.mark.parametrize(
    "text", ["Hello there, my friend.", "你好，很高兴认识你。", "I like 北京."]
)
def test_speech_is_the_same_each_time_without_a_click_and_its_spans_fill_it(
    synthesizer: Synthesizer, text: str
) -> None:
    pieces = list(synthesizer.speak(text))
    whole = voice_of(pieces)
    np.testing.assert_array_equal(whole, voice_of(list(synthesizer.speak(text))))
    voice = whole.astype(np.float64) / 32768
    assert np.flatnonzero(np.abs(voice) > 0.02)[0] < 0.12 * 24_000, "it starts at once"
    assert np.abs(voice).max() < 0.99, "it is clipped"
    assert max(abs(voice[0]), abs(voice[-1])) < 0.01, "its ends are loud"
    position = 0
    for span in (span for piece in pieces for span in piece.phonemes):
        assert span.start_samples == position
        assert span.duration_samples > 0
        position += span.duration_samples
    assert position == len(voice)
    assert position % HOP_SAMPLES == 0


@pytest.mark.parametrize("text", ["Feeling fine.", "可以去爬山。"])
def test_nobody_waits_for_the_first_sound(synthesizer: Synthesizer, text: str) -> None:
    voice = voice_of(list(synthesizer.speak(text))) / 32768
    first = np.flatnonzero(np.abs(voice) > 0.01)[0]
    assert first <= 0.01 * 24_000


@pytest.mark.parametrize(
    ("start", "ahead", "end"),
    [("The capital of France", " i", " is Paris."), ("今天晚上", "我应", "我应该做一道烤鸡。")],
)
def test_a_sentence_in_two_phrases_is_spoken_as_in_one(
    synthesizer: Synthesizer, start: str, ahead: str, end: str
) -> None:
    answer = synthesizer.answer(SpeechOptions())
    parts = [list(answer.say(Phrase(start, Pause.NONE, ahead)))]
    parts += [list(answer.say(Phrase(end, Pause.SENTENCE)))]
    whole = synthesizer.answer(SpeechOptions()).say(Phrase(start + end, Pause.SENTENCE))
    one, (first, second) = voice_of(list(whole)), (voice_of(part) for part in parts)
    assert len(first) + len(second) == pytest.approx(len(one), rel=0.06)
    alone = synthesizer.answer(SpeechOptions()).say(Phrase(start, Pause.NONE))
    assert len(first) < 0.9 * len(voice_of(list(alone))), "no lengthening as before a pause"
    join = np.concatenate([first[-600:], second[:600]]) / 32768
    assert np.sqrt(np.mean(join.reshape(-1, 240) ** 2, axis=1)).min() > 0.005
    spans = [span for part in parts for piece in part for span in piece.phonemes]
    position = 0
    for span in spans:
        assert span.start_samples == position
        position += span.duration_samples
    assert not any(span.symbol == "sil" for span in spans[1:-1])


def test_both_voices_are_equally_loud(synthesizer: Synthesizer) -> None:
    def level_db(text: str) -> float:
        hops = voice_of(list(synthesizer.speak(text))).reshape(-1, HOP_SAMPLES) / 32768
        power = np.mean(hops**2, axis=1)
        return float(10 * np.log10(np.mean(power[power > 1e-4])))

    english = level_db("The weather is nice today and I feel very happy.")
    chinese = level_db("今天天气很好，见到你我非常高兴。")
    assert english == pytest.approx(chinese, abs=2.5)


@pytest.mark.parametrize("text", ["A short walk.", "走一走吧。"])
def test_slower_speech_is_longer(synthesizer: Synthesizer, text: str) -> None:
    slow, fast = (len(voice_of(list(synthesizer.speak(text, speed=s)))) for s in (0.5, 2.0))
    assert 2 < slow / fast < 5


@pytest.mark.parametrize(
    "text",
    ["😀", "Привет", "ひらがな", "\x00\x07", "a", "嗯", "9" * 30, "http://", "°", "鿿", "A " * 150],
)
def test_odd_text_neither_crashes_nor_blocks(synthesizer: Synthesizer, text: str) -> None:
    for language in ("en", "zh"):
        for piece in synthesizer.speak(text, language=language):
            assert np.isfinite(piece.mel).all()


def test_mandarin_pieces_equal_the_whole(mandarin: MandarinVoice) -> None:
    text = "今天天气很好我们一起去公园散步吧"
    symbols = mandarin.phonemes.symbols(text)
    mel, spans = mandarin.acoustics(symbols, 1.0)
    total = mel.shape[1]
    assert sum(span.hops for span in spans) == total
    assert total > 2 * CONTEXT_FRAMES
    whole = mandarin.vocode(mel, 0, total)
    pieces = [mandarin.vocode(mel, k, min(k + 16, total)) for k in range(0, total, 16)]
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-3)
    blocks = list(alone(mandarin.speak(text)))
    voice = np.concatenate([block.voice for block in blocks])
    inner = slice(1200, len(voice) - 1200)
    np.testing.assert_allclose(
        np.concatenate([block.mel for block in blocks])[4:-4], log_mel(voice)[4:-4], atol=0.2
    )
    assert np.abs(voice[inner]).max() > 0.05


def test_a_long_phrase_that_goes_on_stays_within_the_compiled_vocoder(
    mandarin: MandarinVoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, vocode = [], mandarin.vocode

    def counted(mel: Resident, first: int, end: int) -> np.ndarray:
        made.append(end - first + 2 * CONTEXT_FRAMES)
        return vocode(mel, first, end)

    monkeypatch.setattr(mandarin, "vocode", counted)
    text, around = "我们一起去公园散步吧" * 3, Surroundings(before="今天天气很好")
    (block,) = alone(mandarin.speak(text, Prosody(speed=0.6), around))
    assert len(block.mel) > 256 >= max(made)
    assert len(block.voice) == len(block.mel) * HOP_SAMPLES


def test_long_mandarin_is_split_and_stays_within_the_decoder(mandarin: MandarinVoice) -> None:
    symbols = mandarin.phonemes.symbols("装饰床" * 40)
    parts = list(split_symbols(symbols))
    assert len(parts) > 1
    assert max(len(part) for part in parts) <= MAX_SYMBOLS + 2
    spoken = [s for part in parts for s in part if s != "sil" and not s.startswith("#")]
    assert spoken == [s for s in symbols if s != "sil" and not s.startswith("#")]
    mel, spans = mandarin.acoustics(parts[0], 0.5)
    assert MAX_FRAMES // 2 < mel.shape[1] < MAX_FRAMES
    assert sum(span.hops for span in spans) == mel.shape[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("你好", "n i2 h ao3"),
        ("我很好", "^ uo3 h en2 h ao3"),
        ("我也想买", "^ uo2 ^ ie3 x iang2 m ai3"),
        ("不是", "b u2 sh iii4"),
        ("不好", "b u4 h ao3"),
        ("一个", "^ i2 g e4"),
        ("一起", "^ i4 q i3"),
        ("第一", "d i4 ^ i1"),
        ("十一", "sh iii2 ^ i1"),
        ("看一看", "k an4 ^ i5 k an4"),
        ("玩儿", "^ uan2 er5"),
        ("女儿", "n v3 ^ er2"),
        ("银行行长", "^ in2 h ang2 h ang2 zh ang3"),
        ("战略", "zh an4 l ve4"),
    ],
)
def test_mandarin_readings(phonemes: BakerPhonemes, text: str, expected: str) -> None:
    symbols = [s for s in phonemes.symbols(text) if s != "sil" and not s.startswith("#")]
    assert " ".join(symbols) == expected
    assert phonemes.ids(symbols)


def test_mandarin_marks_words_and_clauses(phonemes: BakerPhonemes) -> None:
    assert " ".join(phonemes.symbols("银行，二十五个的。")) == (
        "sil ^ in2 #0 h ang2 #3 ^ er4 #0 sh iii2 #0 ^ u3 #1 g e4 #0 d e5 sil"
    )
    assert phonemes.symbols("，。!") == []


@pytest.mark.parametrize(
    ("text", "language", "known"),
    [
        ("Hello there, I am **fine**. And you?", "en", 7),
        ("In 1984 it was well-known.", "en", 5),
        ("今天天气很好，我们去公园吧。", "zh", 12),
        ("我用iPhone看NBA。", "zh", 5),
    ],
)
def test_the_voice_tells_where_each_word_ends(
    synthesizer: Synthesizer, text: str, language: str, known: int
) -> None:
    pieces = list(synthesizer.speak(text, language=language))
    marks = [mark for piece in pieces for mark in piece.marks]
    words = {m.chars: m.samples for m in marks}
    ends = [
        word.end() for word in re.finditer(r"[\w'*.-]+[,.?]*" if language == "en" else ".", text)
    ]
    assert len(words) == known and set(words) <= set(ends)
    assert list(words.values()) == sorted(set(words.values()))
    length = len(voice_of(pieces))
    assert length - 24_000 * 0.1 < marks[-1].samples <= length
    for piece in pieces:
        end = piece.pts_samples + len(piece.voice)
        assert all(m.samples <= end for m in piece.marks)


def test_mandarin_phrases_that_share_runs_sound_as_alone(mandarin: MandarinVoice) -> None:
    texts = ["你好。", "很高兴认识你，今天天气怎么样？", "是的，我知道。"]
    made, rows = together([mandarin.speak(text) for text in texts])
    assert rows[:2] == [3, 3], "one run of the encoder, one of the decoder"
    for text, blocks in zip(texts, made, strict=True):
        apart = [block for block in alone(mandarin.speak(text)) if isinstance(block, Block)]
        assert [block.spans for block in blocks] == [block.spans for block in apart]
        for block, other in zip(blocks, apart, strict=True):
            assert np.abs(block.voice - other.voice).max() < 1e-4


class TooNarrow(Engine):
    """As compiled for a GPU, `file` takes rows, but here no request fits its plans."""

    backend = "plans"

    def __init__(self, file: Engine) -> None:
        super().__init__(file.model, device="cuda:0", threads=1)
        self._file = file

    def _load(self) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
        given = self._file.inputs.items()
        for_rows = {name: replace(spec, shape=(None, *spec.shape[1:])) for name, spec in given}
        return for_rows, dict(self._file.outputs)

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        raise UnfitShapeError("not compiled for this")

    def _close(self) -> None:
        pass


def test_english_phrases_are_said_one_by_one_once_the_gpu_is_left(
    bundle: Bundles, engines: dict[Path, Engine], synthesizer: Synthesizer
) -> None:
    file = bundle("hibari-en") / "hibari-durations.onnx"
    on_cpu = EnglishVoice(engines[file])
    ask = next(on_cpu.speak("Yes."))
    assert isinstance(ask, RowAsk) and ask.network.largest == 1
    rungs = [
        Rung("plans", "cuda:0", lambda: TooNarrow(engines[file])),
        Rung("onnxruntime", "cpu", lambda: open_engine(file)),
    ]
    with LadderEngine(file, rungs) as engine:
        voice, texts = EnglishVoice(engine), ("Yes.", "Hello there, my friend.")
        made, rows = together([voice.speak(text) for text in texts])
    assert rows == [2]
    for text, blocks in zip(texts, made, strict=True):
        expected = [block.voice for block in alone(on_cpu.speak(text))]
        np.testing.assert_array_equal([block.voice for block in blocks], expected)
