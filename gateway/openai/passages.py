"""What was said as OpenAI's clients want it: JSON, subtitles, words with their times. Pure.

The recognisers time passages of some seconds, not words: within one, its words share its time by
their length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from gateway.stages.plain_calls import Passage, Recognised

LONGEST_CUE_CHARACTERS = 84
"""Two lines of a subtitle."""
_SENTENCE = re.compile(r".*?(?:[.!?…]+[\"'”’)]*\s+|[。！？；]+[”’」』]*|$)", re.DOTALL)
# Scripts that put no space between words are cut at each character.
_WORD = re.compile(r"[\u2e80-\ua4cf\uf900-\ufaff\uff00-\uffef]|[^\s\u2e80-\ua4cf\uf900-\ufaff]+")
_LETTER = re.compile(r"\w")
_NAMES = {"en": "english", "zh": "chinese", "ja": "japanese", "ko": "korean", "de": "german"}
_NAMES |= {"fr": "french", "es": "spanish", "it": "italian", "pt": "portuguese", "ru": "russian"}


def cues(passages: Sequence[Passage]) -> list[Passage]:
    """Passages cut at ends of sentences, and where they are longer than a subtitle."""
    found: list[Passage] = []
    for passage in passages:
        sentences = [s for s in _SENTENCE.findall(passage.text) if s.strip()]
        found += _shared(passage, [cue for sentence in sentences for cue in _cut(sentence)])
    return found


def words(passages: Sequence[Passage]) -> list[Passage]:
    """Each word, and when it is said, by its share of its passage's letters."""
    found: list[Passage] = []
    for passage in passages:
        parts = [w for w in _WORD.findall(passage.text) if _LETTER.search(w)]
        found += _shared(passage, parts)
    return found


def _cut(sentence: str) -> list[str]:
    if len(sentence.strip()) <= LONGEST_CUE_CHARACTERS:
        return [sentence]
    lines, line = [], ""
    # Words with the space behind them; of scripts without spaces, characters.
    for part in re.findall(r"[^\s\u2e80-\ua4cf]+\s*|\S\s*", sentence):
        if line and len((line + part).strip()) > LONGEST_CUE_CHARACTERS:
            lines.append(line)
            line = ""
        line += part
    return [*lines, line]


def _shared(passage: Passage, parts: Sequence[str]) -> list[Passage]:
    """The passage's time, shared out by length."""
    sizes = [max(1, len(_LETTER.findall(part))) for part in parts]
    whole, length_s = sum(sizes), passage.end_s - passage.start_s
    found, before = [], 0
    for part, size in zip(parts, sizes, strict=True):
        start = passage.start_s + length_s * before / whole
        before += size
        end = passage.start_s + length_s * before / whole
        # An empty line would end a cue.
        found.append(Passage(" ".join(part.split()), round(start, 3), round(end, 3)))
    return found


def as_srt(passages: Sequence[Passage]) -> str:
    """SubRip: numbered cues, times with a comma."""
    blocks = (
        f"{number}\n{_clock(cue.start_s, ',')} --> {_clock(cue.end_s, ',')}\n{cue.text}\n"
        for number, cue in enumerate(cues(passages), 1)
    )
    return "\n".join(blocks)


def as_vtt(passages: Sequence[Passage]) -> str:
    """WebVTT: times with a dot."""
    blocks = (
        # An arrow inside a cue would begin another one; other signs are those of its markup.
        f"{_clock(cue.start_s, '.')} --> {_clock(cue.end_s, '.')}\n"
        f"{escape(cue.text.replace('-->', '→'), quote=False)}\n"
        for cue in cues(passages)
    )
    return "\n".join(("WEBVTT\n", *blocks))


def as_verbose_json(
    heard: Recognised, duration_s: float, *, with_segments: bool, with_words: bool
) -> dict[str, Any]:
    """`verbose_json`. What a recogniser does not tell of a segment is neutral."""
    told: dict[str, Any] = {
        "task": "transcribe",
        "language": _NAMES.get(heard.language, heard.language),
        "duration": round(duration_s, 3),
        "text": heard.text,
        "usage": usage_of(duration_s),
    }
    if with_segments:
        told["segments"] = [
            {
                "id": index,
                "seek": 0,
                "start": cue.start_s,
                "end": cue.end_s,
                "text": cue.text,
                "tokens": [],
                "temperature": 0.0,
                "avg_logprob": 0.0,
                "compression_ratio": 1.0,
                "no_speech_prob": 0.0,
            }
            for index, cue in enumerate(cues(heard.passages))
        ]
    if with_words:
        told["words"] = [
            {"word": word.text, "start": word.start_s, "end": word.end_s}
            for word in words(heard.passages)
        ]
        told["word_times"] = "estimated"
    return told


def usage_of(duration_s: float) -> dict[str, Any]:
    """What a recording is counted by."""
    return {"type": "duration", "seconds": round(duration_s, 3)}


def _clock(at_s: float, point: str) -> str:
    at_ms = round(at_s * 1000)
    hours, minutes, seconds = at_ms // 3_600_000, at_ms // 60_000 % 60, at_ms // 1000 % 60
    return f"{hours:02}:{minutes:02}:{seconds:02}{point}{at_ms % 1000:03}"
