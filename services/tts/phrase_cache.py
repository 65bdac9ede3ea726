"""The sound of phrases that are asked for often, kept in memory so that nobody waits for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from services.tts.sound import HOP_SAMPLES, SAMPLE_RATE_HZ, Block
from services.tts.text.surroundings import ALONE, Surroundings
from visavis.serving import metrics


@dataclass(frozen=True, slots=True)
class PhraseKey:
    """All that the sound of a phrase depends on, but for its loudness."""

    text: str
    """As the voice gets it, cleaned of markup."""
    language: str
    """Of text whose script does not tell."""
    voice: str
    speed: float
    pitch: float = 1.0
    pitch_range: float = 1.0
    voicing: float = 1.0
    around: Surroundings = ALONE


@dataclass(slots=True)
class KeptPhrase:
    """A phrase with its sound."""

    key: PhraseKey
    blocks: tuple[Block, ...]
    hits: int = 0

    @property
    def seconds(self) -> float:
        hops = sum(len(block.mel) for block in self.blocks)
        return hops * HOP_SAMPLES / SAMPLE_RATE_HZ

    @property
    def size_bytes(self) -> int:
        return sum(block.voice.nbytes + block.mel.nbytes for block in self.blocks)


class PhraseCache:
    """Keeps the sound of what was prerendered; may be used from several threads.

    Of nothing else: an answer of a language model is hardly ever repeated word for word, and would
    push out what is.

    limit_bytes: where it is full, the phrase that was used least recently goes.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.hits = self.misses = self.evictions = 0
        self._kept: OrderedDict[PhraseKey, KeptPhrase] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def kept(self, key: PhraseKey) -> Sequence[Block]:
        """The sound of a phrase that need not be made, nothing where it must. Does not count."""
        with self._lock:
            kept = self._kept.get(key)
        return () if kept is None else kept.blocks

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def phrases(self) -> list[KeptPhrase]:
        """Least recently used first."""
        with self._lock:
            return list(self._kept.values())

    def find(self, key: PhraseKey) -> Sequence[Block] | None:
        """The sound of a phrase that is about to be spoken. Counts."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                kept.hits += 1
        self.hits += kept is not None
        self.misses += kept is None
        metrics.tts_phrase_cache_lookups.labels("miss" if kept is None else "hit").inc()
        return None if kept is None else kept.blocks

    def keep(self, key: PhraseKey, blocks: Sequence[Block]) -> None:
        """Keep a phrase's sound, unless it is larger than all the room there is."""
        kept = KeptPhrase(key, tuple(blocks))
        if kept.size_bytes > self.limit_bytes:
            return
        with self._lock:
            self._drop(key)
            self._kept[key] = kept
            self._bytes += kept.size_bytes
            while self._bytes > self.limit_bytes:
                self._drop(next(iter(self._kept)))
                self.evictions += 1
                metrics.tts_phrase_cache_evictions.inc()
            self._measure()

    def clear(self) -> int:
        """Forget all; how many there were."""
        with self._lock:
            count = len(self._kept)
            self._kept.clear()
            self._bytes = 0
            self._measure()
            return count

    def _drop(self, key: PhraseKey) -> None:
        gone = self._kept.pop(key, None)
        if gone is not None:
            self._bytes -= gone.size_bytes

    def _measure(self) -> None:
        metrics.tts_phrase_cache_entries.set(len(self._kept))
        metrics.tts_phrase_cache_bytes.set(self._bytes)
