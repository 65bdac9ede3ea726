"""Simulated rooms, noises, and short sounds that are no speech. All of it is drawn by seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from training.turn_taking.sounds import SAMPLE_RATE_HZ

Sound = NDArray[np.float32]

_SPEED_OF_SOUND = 343.0
_IMAGES = 9
_TALKERS = 6


def room_response(
    size_m: Sequence[float], source_m: Sequence[float], ear_m: Sequence[float], reflects: float
) -> Sound:
    """Impulse response of a box, [N] float32, the direct sound being 1 at its first sample.

    reflects: amplitude that a wall gives back. By images of the source (Allen & Berkley, "Image
    method for efficiently simulating small-room acoustics", JASA 65, 1979), to the nearest sample.
    """
    size, source, ear = (np.array(x, float) for x in (size_m, source_m, ear_m))
    n = np.arange(-_IMAGES, _IMAGES + 1)
    grid = np.stack(np.meshgrid(n, n, n, indexing="ij"), -1).reshape(-1, 1, 3)
    sides = np.stack(np.meshgrid([0, 1], [0, 1], [0, 1], indexing="ij"), -1).reshape(1, -1, 3)
    places = (1 - 2 * sides) * source + 2 * grid * size
    distance = np.linalg.norm(places - ear, axis=-1).ravel()
    walls = np.abs(2 * grid - sides).sum(-1).ravel()
    direct = float(np.linalg.norm(source - ear))
    delay = np.round((distance - direct) / _SPEED_OF_SOUND * SAMPLE_RATE_HZ).astype(int)
    response = np.zeros(int(delay.max()) + 1)
    # Images of either sign keep the late part from piling up to a hum.
    signs = np.where(np.random.default_rng(1).random(len(delay)) < 0.5, -1.0, 1.0)
    signs[walls == 0] = 1.0
    np.add.at(response, delay, signs * reflects**walls * direct / np.maximum(distance, 0.1))
    kept = np.flatnonzero(np.abs(response) > 1e-4)
    return np.asarray(response[: kept[-1] + 1], np.float32)


ROOMS: dict[str, tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...], float]] = {
    # Size, speaker and microphone in metres, and how much a wall gives back.
    "": ((1, 1, 1), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), 0.0),
    "study": ((3.2, 2.8, 2.4), (1.2, 1.3, 1.2), (1.7, 1.4, 1.1), 0.55),
    "office": ((5.1, 4.2, 2.7), (1.5, 1.9, 1.2), (2.4, 2.1, 0.9), 0.66),
    "kitchen": ((4.0, 3.1, 2.5), (1.1, 2.0, 1.5), (2.0, 1.2, 1.0), 0.74),
    "hall": ((9.0, 7.0, 3.6), (3.0, 3.2, 1.6), (4.2, 3.6, 1.1), 0.80),
}


@cache
def response_of(room: str) -> Sound:
    """Impulse response of a room of ROOMS, [N] float32."""
    return room_response(*ROOMS[room])


def in_room(pcm: Sound, room: str) -> Sound:
    """pcm [N] float32 with the room's reflections, [N + tail]; "": as it is."""
    if not room:
        return pcm
    response = response_of(room)
    size = len(pcm) + len(response) - 1
    padded = 1 << (size - 1).bit_length()
    spectrum = np.fft.rfft(pcm, padded) * np.fft.rfft(response, padded)
    return np.asarray(np.fft.irfft(spectrum, padded)[:size], np.float32)


# ------------------------------------------------------------ what goes on behind the speech


def _pink(samples: int, random: np.random.Generator, power: float = 0.5) -> NDArray[np.float64]:
    spectrum = np.fft.rfft(random.standard_normal(samples))
    spectrum /= np.maximum(np.arange(len(spectrum)), 1.0) ** power
    return np.asarray(np.fft.irfft(spectrum, samples))


def _street(samples: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Low rumble that swells, and what passes by."""
    at = np.arange(samples) / SAMPLE_RATE_HZ
    noise = _pink(samples, random, 0.9)
    noise /= noise.std()
    passing = _pink(samples, random, 0.4)
    passing /= passing.std()
    for _ in range(max(1, round(at[-1] / 3))):
        near_s, lasts_s = random.uniform(0, at[-1]), random.uniform(0.5, 1.5)
        noise += 1.2 * passing * np.exp(-(((at - near_s) / lasts_s) ** 2))
    return np.asarray(noise)


def _keyboard(samples: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Five to nine strokes a second, each a click and its release."""
    noise = 0.02 * _pink(samples, random)
    at = 0.0
    while at < samples / SAMPLE_RATE_HZ:
        for after_s, loud in ((0.0, 1.0), (random.uniform(0.06, 0.11), 0.4)):
            _add(noise, click(random) * loud, round((at + after_s) * SAMPLE_RATE_HZ))
        at += random.exponential(0.14) + 0.04
    return np.asarray(noise)


def click(random: np.random.Generator) -> NDArray[np.float64]:
    """One stroke of a key: [N] float64, 30 ms."""
    at = np.arange(round(0.03 * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    rings = sum(np.sin(2 * np.pi * random.uniform(600, 5000) * at) for _ in range(4))
    hiss = random.standard_normal(len(at))
    return np.asarray((rings + 2 * hiss) * np.exp(-at / 0.006) * random.uniform(0.5, 1.0))


_SCALE = (0, 2, 4, 5, 7, 9, 11)
_CHORDS = ((0, 2, 4), (3, 5, 0), (4, 6, 1), (5, 0, 2))


def _music(samples: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Chords, a tune over them and a drum: four beats to a chord."""
    music = np.zeros(samples)
    beat = round(60 / random.uniform(80, 130) * SAMPLE_RATE_HZ)
    root_hz = random.uniform(100, 180)
    for index, start in enumerate(range(0, samples, beat)):
        chord = _CHORDS[index // 4 % 4]
        for degree in chord if index % 4 == 0 else ():
            _add(music, 0.5 * _note(root_hz, degree, 4 * beat), start)
        _add(music, 0.8 * _note(2 * root_hz, int(random.choice(_SCALE)) % 7, beat), start)
        drum = random.standard_normal(beat // 4) * np.exp(-np.arange(beat // 4) / 400)
        _add(music, (0.9 if index % 2 else 0.4) * drum, start)
    return music


def _note(root_hz: float, degree: int, samples: int) -> NDArray[np.float64]:
    at = np.arange(samples) / SAMPLE_RATE_HZ
    hz = root_hz * 2 ** (_SCALE[degree] / 12)
    tones = sum(np.sin(2 * np.pi * hz * k * at) / k**1.3 for k in range(1, 7))
    return np.asarray(tones * np.exp(-at / (at[-1] + 0.01)) * np.minimum(1, at / 0.01))


def _add(into: NDArray[np.float64], sound: NDArray[np.float64], start: int) -> None:
    end = min(len(into), start + len(sound))
    if start < end:
        into[start:end] += sound[: end - start]


_NOISES: dict[str, Callable[[int, np.random.Generator], NDArray[np.float64]]] = {
    "room": _pink,
    "street": _street,
    "keyboard": _keyboard,
    "music": _music,
}


def noise_of(kind: str, samples: int, seed: int, voices: Sequence[Sound] = ()) -> Sound:
    """[samples] float32 of RMS 1: room, street, keyboard, music, or babble, six of `voices`."""
    random = np.random.default_rng(seed)
    if kind == "babble":
        noise = np.zeros(samples)
        for index in random.choice(len(voices), _TALKERS, replace=False):
            voice = voices[index] / np.std(voices[index])
            noise += np.resize(np.roll(voice, -int(random.integers(len(voice)))), samples)
    else:
        noise = _NOISES[kind](samples, random)
    return np.asarray(noise / noise.std(), np.float32)


# ------------------------------------------------------------ short sounds that are no speech


def breath(seed: int, length_s: float = 0.35) -> Sound:
    """Air through the mouth: [N] float32 of RMS 1."""
    random = np.random.default_rng(seed)
    size = round(length_s * SAMPLE_RATE_HZ)
    spectrum = np.fft.rfft(random.standard_normal(size))
    hz = np.fft.rfftfreq(size, 1 / SAMPLE_RATE_HZ)
    shape = np.exp(-(((hz - 1500) / 900) ** 2)) + 0.4 * np.exp(-(((hz - 3500) / 1200) ** 2))
    air = np.fft.irfft(spectrum * shape, size) * np.hanning(size)
    return np.asarray(air / air.std(), np.float32)


def short_sound(kind: str, seed: int) -> Sound:
    """cough, clap, door or keyboard: [N] float32 with its peak at 0.5. Simulated."""
    random = np.random.default_rng(seed)
    if kind == "cough":
        sound = _cough(random)
    elif kind == "clap":
        sound = np.zeros(round(0.5 * SAMPLE_RATE_HZ))
        for index in range(int(random.integers(1, 3))):
            size = round(0.12 * SAMPLE_RATE_HZ)
            decay = np.exp(-np.arange(size) / (random.uniform(0.008, 0.02) * SAMPLE_RATE_HZ))
            _add(sound, random.standard_normal(size) * decay, round(0.2 * index * SAMPLE_RATE_HZ))
    elif kind == "door":
        at = np.arange(round(0.45 * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
        boom = sum(np.sin(2 * np.pi * random.uniform(50, 220) * at) for _ in range(5))
        sound = boom * np.exp(-at / 0.08) + random.standard_normal(len(at)) * np.exp(-at / 0.02)
    else:
        sound = _keyboard(round(random.uniform(0.5, 1.5) * SAMPLE_RATE_HZ), random)
    return np.asarray(0.5 * sound / np.abs(sound).max(), np.float32)


def _cough(random: np.random.Generator) -> NDArray[np.float64]:
    """One or two bursts through a throat: broad noise with resonances, then a voiced end."""
    sound = np.zeros(round(0.9 * SAMPLE_RATE_HZ))
    for index in range(int(random.integers(1, 3))):
        size = round(random.uniform(0.18, 0.32) * SAMPLE_RATE_HZ)
        at = np.arange(size) / SAMPLE_RATE_HZ
        spectrum = np.fft.rfft(random.standard_normal(size))
        hz = np.fft.rfftfreq(size, 1 / SAMPLE_RATE_HZ)
        peaks = [random.uniform(400, 800), random.uniform(1000, 1700), random.uniform(2300, 3200)]
        shape = 0.15 + sum(np.exp(-(((hz - peak) / 250) ** 2)) for peak in peaks)
        burst = np.fft.irfft(spectrum * shape, size)
        burst *= np.exp(-at / 0.05) + 0.35 * np.exp(-(((at - 0.17) / 0.04) ** 2))
        _add(sound, burst, round(index * random.uniform(0.3, 0.45) * SAMPLE_RATE_HZ))
    return sound
