"""Speakers of the disjoint set, out of packages that registries carry.

LibriTTS-R by VITS has 904 voices of people who read (Zen et al. 2019; Koizumi et al. 2023), Kokoro
English and Mandarin ones. Their letters are IPA: espeak-ng writes the English, `mandarin_ipa` the
Mandarin. espeak-ng and flite speak themselves, too. The two programs are those of the system, or
unpacked from Debian's packages; espeak-ng is GPL, is run as a program of its own, and is needed by
nothing that serves.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import soxr
from numpy.typing import NDArray
from pypinyin import Style, lazy_pinyin

from services.tts.text.english import letter_ids
from training.turn_taking.sounds import SAMPLE_RATE_HZ, trimmed
from visavis.bundles.store import bundle_path
from visavis.bundles.store.catalogue import Catalog
from visavis.bundles.store.pulling.puller import pull
from visavis.serving.errors import InvalidInputError
from visavis.tools.bench.visitor.clips import read_mono

BUNDLE = "turn-voices"
KOKORO = "kokoro-82m-int8"
_CATALOG = Path(__file__).with_name("catalog")
_DEBIAN = "flite libflite1 espeak-ng libespeak-ng1 espeak-ng-data libpcaudio0 libsonic0".split()
# Where the package's index of its memory image says that the two files lie.
_VITS_BYTES = slice(17_992_543, 96_573_590)
_SYMBOLS_BYTES = slice(96_573_590, 96_574_544)
_VITS_RATE_HZ, _KOKORO_RATE_HZ = 22_050, 24_000
# Noise of the sound and of the durations, as the voice's own settings have it.
_VITS_NOISE, _VITS_DURATION_NOISE = 0.667, 0.8
_MARKS = ",.?!"
_CLAUSE = re.compile(rf"[^{_MARKS}]+[{_MARKS}]*")

# Pinyin -> IPA as Kokoro writes it, after Lin, "The Sounds of Chinese" (2007).
_INITIALS = {
    "zh": "ꭧ", "ch": "ꭧʰ", "sh": "ʂ", "b": "p", "p": "pʰ", "m": "m", "f": "f", "d": "t",
    "t": "tʰ", "n": "n", "l": "l", "g": "k", "k": "kʰ", "h": "x", "j": "ʨ", "q": "ʨʰ", "x": "ɕ",
    "r": "ɻ", "z": "ʦ", "c": "ʦʰ", "s": "s",
}  # fmt: skip
# "0" stands where the tone is written.
_FINALS = {
    "a": "a0", "ai": "ai0", "an": "a0n", "ang": "a0ŋ", "ao": "au0", "e": "ɤ0", "ei": "ei0",
    "en": "ə0n", "eng": "ə0ŋ", "i": "i0", "ia": "ja0", "ian": "jɛ0n", "iang": "ja0ŋ",
    "iao": "jau0", "ie": "je0", "in": "i0n", "iu": "jou0", "ing": "i0ŋ", "io": "jo0",
    "iong": "jʊ0ŋ", "ong": "ʊ0ŋ", "ou": "ou0", "u": "u0", "ui": "wei0", "ua": "wa0",
    "uai": "wai0", "uan": "wa0n", "un": "wə0n", "uang": "wa0ŋ", "uo": "wo0", "o": "wo0",
    "v": "y0", "ve": "ɥe0", "van": "ɥɛ0n", "vn": "y0n", "er": "ɚ0",
}  # fmt: skip
_TONES = {"1": "→", "2": "↗", "3": "↓", "4": "↘", "5": ""}
_HISSING = re.compile(r"(zh|ch|sh|r|z|c|s)i$")
_WIDE = str.maketrans("，、。？！", ",,.?!")


def mandarin_ipa(text: str) -> str:
    """Letters of Kokoro for Mandarin `text`."""
    pieces = lazy_pinyin(text, style=Style.TONE3, neutral_tone_with_five=True, tone_sandhi=True)
    return "".join(_syllable(piece) for piece in pieces)


def _syllable(piece: str) -> str:
    if not piece[-1].isdigit():
        return "".join(f"{mark} " for mark in piece.translate(_WIDE) if mark in _MARKS)
    sound, tone = piece[:-1].replace("ü", "v"), _TONES[piece[-1]]
    if sound in ("n", "ng", "m", "hm", "hng"):
        return "ə" + tone + "n"
    if _HISSING.search(sound):
        return _INITIALS[sound[:-1]] + "ɨ" + tone
    initial = next((i for i in (sound[:2], sound[:1]) if i in _INITIALS), "")
    rest = _spelt_out(sound[len(initial) :], initial)
    return _INITIALS.get(initial, "") + _FINALS[rest].replace("0", tone)


def _spelt_out(final: str, initial: str) -> str:
    """Pinyin writes y and w for i and u that begin a syllable, and u for ü where that is plain."""
    if initial in ("j", "q", "x") and final.startswith("u"):
        return "v" + final[1:]
    if initial or final[:1] not in "yw":
        return final
    if final.startswith("yu"):
        return "v" + final[2:]
    if final[0] == "y":
        rest = final[1:] if final[1] == "i" else "i" + final[1:]
    else:
        rest = final[1:] if final[1] == "u" else "u" + final[1:]
    return {"iou": "iu", "uei": "ui", "uen": "un", "ueng": "ong"}.get(rest, rest)


class Programs:
    """espeak-ng and flite: the system's, else unpacked from Debian's packages into `folder`."""

    def __init__(self, folder: Path) -> None:
        """Raises InvalidInputError where there are none."""
        self._root = folder
        found = all(shutil.which(name) for name in ("espeak-ng", "flite"))
        self._unpacked = not found
        if self._unpacked and not (folder / "usr/bin/flite").is_file():
            self._unpack()

    def _unpack(self) -> None:
        debs = self._root / "packages"
        debs.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(["apt-get", "download", *_DEBIAN], cwd=debs, check=True)
            for deb in debs.glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", str(deb), str(self._root)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise InvalidInputError(f"install espeak-ng and flite: {error}") from error

    def run(self, *arguments: str) -> str:
        """What the program named first prints."""
        environment = dict(os.environ)
        program = arguments[0]
        if self._unpacked:
            libraries = [str(p) for p in (self._root / "usr/lib").glob("*-linux-gnu")]
            environment["LD_LIBRARY_PATH"] = ":".join(libraries)
            environment["ESPEAK_DATA_PATH"] = libraries[0]
            program = str(self._root / "usr/bin" / program)
        done = subprocess.run(
            [program, *arguments[1:]],
            env=environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=True,
        )
        return done.stdout


class Speakers:
    """Says a text in the voice of a speaker: "vits 17", "kokoro zm_yunxi", one half-way between
    two ("kokoro zm_yunxi+zf_xiaoni"), "espeak en-us+m3", "flite rms"."""

    def __init__(self, scratch: Path) -> None:
        """scratch: for programs and what they write."""
        scratch.mkdir(parents=True, exist_ok=True)
        self._scratch = scratch
        self._programs = Programs(scratch / "programs")
        catalog = Catalog([_CATALOG])
        pull([BUNDLE], catalog=catalog)
        pull([KOKORO])
        self._folder = bundle_path(BUNDLE, catalog=catalog)
        image = (self._folder / "sherpa-onnx-wasm-main.data").read_bytes()
        lines = image[_SYMBOLS_BYTES].decode().split("\n")
        pairs = [line.rsplit(" ", 1) for line in lines if line.strip()]
        self._vits_ids = {symbol: int(number) for symbol, number in pairs}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._vits = onnxruntime.InferenceSession(image[_VITS_BYTES], options)
        kokoro = bundle_path(KOKORO) / "kokoro-v1.0.int8.onnx"
        self._kokoro = onnxruntime.InferenceSession(str(kokoro), options)
        self._kokoro_ids = letter_ids()
        self._spelt = dict[str, str]()

    def say(self, text: str, speaker: str, speed: float) -> NDArray[np.float32]:
        """[N] float32 at 16 kHz, without silence at its ends."""
        kind, name = speaker.split()
        says = {"vits": self._say_vits, "kokoro": self._say_kokoro}
        if kind in says:
            pcm, rate_hz = says[kind](text, name, speed)
            pcm = np.asarray(soxr.resample(pcm, rate_hz, SAMPLE_RATE_HZ), np.float32)
        else:
            pcm = self._say_program(kind, text, name, speed)
        return trimmed(pcm)

    def _say_vits(self, text: str, name: str, speed: float) -> tuple[NDArray[np.float32], int]:
        ids = [
            self._vits_ids[letter] for letter in self._english_ipa(text) if letter in self._vits_ids
        ]
        pad = self._vits_ids["_"]
        padded = [self._vits_ids["^"], pad, *(i for letter in ids for i in (letter, pad))]
        padded.append(self._vits_ids["$"])
        fed = {
            "input": np.array([padded], np.int64),
            "input_lengths": np.array([len(padded)], np.int64),
            "scales": np.array([_VITS_NOISE, 1 / speed, _VITS_DURATION_NOISE], np.float32),
            "sid": np.array([int(name)], np.int64),
        }
        return self._vits.run(None, fed)[0].ravel(), _VITS_RATE_HZ

    def _say_kokoro(self, text: str, name: str, speed: float) -> tuple[NDArray[np.float32], int]:
        letters = mandarin_ipa(text) if name[0] == "z" else self._english_ipa(text)
        ids = [self._kokoro_ids[letter] for letter in letters if letter in self._kokoro_ids]
        files = [self._style(one) for one in name.split("+")]
        styles = np.mean([np.fromfile(f, np.float32) for f in files], axis=0).reshape(-1, 256)
        fed = {
            "tokens": np.array([[0, *ids, 0]], np.int64),
            "style": styles[len(ids)][None],
            "speed": np.array([speed], np.float32),
        }
        return self._kokoro.run(None, fed)[0].ravel(), _KOKORO_RATE_HZ

    def _style(self, name: str) -> Path:
        """Of the Kokoro voice with this name."""
        here = self._folder / "voices" / f"{name}.bin"
        return here if here.is_file() else bundle_path(KOKORO) / here.relative_to(self._folder)

    def _say_program(self, kind: str, text: str, name: str, speed: float) -> NDArray[np.float32]:
        out = self._scratch / "said.wav"
        if kind == "flite":
            stretch = f"duration_stretch={1 / speed:.2f}"
            self._programs.run(
                "flite", "-voice", name, "--setf", stretch, "-t", text, "-o", str(out)
            )
        else:
            words = str(round(165 * speed))
            self._programs.run("espeak-ng", "-v", name, "-s", words, "-w", str(out), text)
        return read_mono(out, SAMPLE_RATE_HZ).astype(np.float32) / np.float32(32768)

    def _english_ipa(self, text: str) -> str:
        """espeak drops the marks that make the melody: it is asked clause by clause."""
        clauses = [clause.strip() for clause in _CLAUSE.findall(text)]
        return " ".join(f"{self._ipa(c)}{_mark(c)}" for c in clauses)

    def _ipa(self, clause: str) -> str:
        if clause not in self._spelt:
            self._spelt[clause] = self._spell(clause)
        return self._spelt[clause]

    def _spell(self, clause: str) -> str:
        told = self._programs.run("espeak-ng", "-q", "--ipa", "-v", "en-us", clause.rstrip(_MARKS))
        return " ".join(told.split())


def _mark(clause: str) -> str:
    return clause[-1] if clause[-1] in _MARKS else ""


def going_on(parts: Sequence[str]) -> Iterator[str]:
    """A part without a mark at its end is spoken as one that goes on."""
    for part in parts:
        comma = "" if part[-1] in f"{_MARKS}，、。？！" else "," if part.isascii() else "，"
        yield part + comma
