"""All that is English about text: where it may be cut, how it goes on, how it sounds."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import cache
from itertools import accumulate, takewhile
from pathlib import Path
from typing import NamedTuple

from hibari.g2p import G2P
from hibari.tts import ASSETS

from services.tts.sound import SILENCE, Span
from services.tts.text.english_numbers import say_numbers
from services.tts.text.surroundings import ALONE, Surroundings
from services.tts.word_ends import last_spoken_words, owners_within

log = logging.getLogger(__name__)

# Where text may be cut between two words, and which points end a sentence.

_TITLES = frozenset(
    "dr. mr. mrs. ms. prof. st. mt. gen. col. lt. sgt. cpl. maj. adm. cmdr. capt. rev. hon. pres. "
    "gov. sen. rep. supt. messrs. vs. v. c. cf. "
    "e.g. i.e. a.k.a. eg. ie. viz. approx. ca. jan. feb. "
    "mar. apr. jun. jul. aug. sep. sept. oct. nov. dec. mon. tue. wed. thu. fri. sat. sun.".split()
)
"""Abbreviations that something always follows: their point never ends a sentence."""

_DAYS_AND_WORDS = frozenset("sun. sat. wed.".split())
"""Days with a capital letter and no article: "He sat." ends a sentence, as does "the Sun."."""

_MAYBE_ABBREVIATIONS = frozenset(
    "no. nos. fig. figs. vol. pp. p. ch. sec. eq. al. etc. inc. ltd. co. corp. jr. sr. ph.d. est. "
    "dept. ave. blvd. rd. a.m. p.m. u.s. u.k. u.n. u.s.a. d.c. b.c. a.d. b.c.e. c.e. n.y. l.a. "
    "m.d. b.a. m.a. p.s. ft. oz. lb. lbs. min. mins. max. sq. hr. hrs. tsp. tbsp. avg. bros. univ. "
    "apt. bldg. hwy. ext. tel. ed. eds. op.".split()
)
"""Their point ends a sentence where a capital letter follows, as does that of a small letter."""

_NAMED_BY_LETTER = frozenset(
    "vitamin vitamins plan option type grade class group part section appendix exhibit figure "
    "hepatitis gate terminal team category letter level phase step zone unit room row point "
    "scenario version variant".split()
)
"""Things of which one is told by a letter: its point ends a sentence, being no initial's."""

_BREAK_BEFORE = frozenset(
    "and but or because so if when while where which who whose that than though although unless "
    "until since after before with without as for from through during about between into like "
    "however therefore instead to at in on by is are was were will can".split()
)
"""A new part of the sentence begins here: the voice may take a breath in front."""

_KEEP_WITH_NEXT = frozenset(
    "a an the this these those my your his her its our their some any no each every all both "
    "of to in on at by for from with into as and or but if that than is are was were be been am "
    "will would can could should may might must do does did has have had not very so too more most "
    "over under about around near between within during through across against among toward "
    "because so when while where which who whose what how why although though unless until since "
    "such much many few several another other one also just only even quite rather almost nearly "
    "like per via than whether sq i'll you'll he'll she'll we'll they'll don't doesn't can't won't "
    "mr mrs ms dr i you he she it we they there i'm it's that's you're we're they're i've".split()
)
"""Never the last word of a cut phrase: it leans on what follows."""
_SENTENCE_OPENERS = _BREAK_BEFORE | _KEEP_WITH_NEXT | {"then", "here", "today", "now"}
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+")
_SYLLABLE = re.compile(r"[aeiouyà-öø-ÿ]+", re.IGNORECASE)


def opens_part(word: str) -> bool:
    """Whether a new part of the sentence begins with `word`."""
    return _bare(word).lower() in _BREAK_BEFORE


def may_begin(before: str, letter: str) -> bool:
    """Whether a word that begins with `letter` may be parted from `before`: no number, no name."""
    last = _last_word(before)
    if not last or not letter.isalpha() or not _is_word(last):
        return False
    return letter.islower() or last[0].islower()


def may_end(text: str) -> bool:
    """Whether the last word of `text` leans on none that follows."""
    last = _last_word(text)
    return bool(last) and not last.endswith(".") and _bare(last).lower() not in _KEEP_WITH_NEXT


def syllables(text: str) -> int:
    """About how many there are."""
    return len(_SYLLABLE.findall(text))


class Point(Enum):
    """What a full stop ends."""

    SENTENCE = auto()
    ABBREVIATION = auto()
    EITHER = auto()
    """The sentence where a capital letter follows."""


def point_at_end(text: str) -> Point:
    """What the point is with which `text` ends."""
    *before, word = text.split()
    word = word.lstrip("\"'“‘([{*_#")
    lowered = word.lower()
    if lowered in _DAYS_AND_WORDS and (word == lowered or "".join(before[-1:]).lower() == "the"):
        return Point.SENTENCE
    if lowered == "st." and any(map(str.isdigit, before[-3:-1])):
        return Point.EITHER  # "12 Elm St.", no saint
    one_letter = len(word) == 2 and word[0].isupper()
    if one_letter and "".join(before[-1:]).lower() in _NAMED_BY_LETTER:
        return Point.EITHER  # "Vitamin C. It is", no "John F. Kennedy"
    if lowered in _TITLES or one_letter:
        return Point.ABBREVIATION
    if text.strip(" \t*_#").rstrip(".").isdigit():
        return Point.ABBREVIATION  # "1. First": the number of a list
    small_letter = len(word) == 2 and word[0].islower()
    if lowered in _MAYBE_ABBREVIATIONS or small_letter:
        return Point.EITHER
    if _DOTTED.fullmatch(word):
        return Point.ABBREVIATION if word.isupper() else Point.EITHER  # "J.K. Rowling"
    return Point.SENTENCE


def begins_sentence(before: str, following: str) -> bool | None:
    """Whether a sentence begins with the word `following`, where the point of an abbreviation that
    may also end one is the last of `before`; None: more of the word tells.

    None begins in "the U.S. Congress", "9 p.m. EST", "Vol. II".
    """
    letters = "".join(takewhile(str.isalpha, following))
    last = _last_word(before)
    is_name = len(last) > 2 and last.isupper() and _DOTTED.fullmatch(last) is not None
    if not letters[:1].isupper():
        return False
    if letters == following and (letters.isupper() or is_name):
        return None
    if len(letters) > 1 and letters.isupper():
        return False
    return not is_name or letters.lower() in _SENTENCE_OPENERS


def _last_word(text: str) -> str:
    return "".join(text.rsplit(None, 1)[-1:])


def _bare(word: str) -> str:
    return word.strip("\"'“”‘’()*_,")


def _is_word(word: str) -> bool:
    """Neither number, address nor abbreviation."""
    return all(char.isalpha() or char in "'’-" for char in _bare(word))


# Addresses of pages and mailboxes as they are said.

_ADDRESS = re.compile(
    r"(?:https?://|www\.)[^\s]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\b(?:[\w-]+\.)+[a-z]{2,}/[^\s]*",
    re.IGNORECASE,
)
_TRAILING = ".,;:!?)]}>\"'”’"
_NAMES = {".": "dot", "/": "slash", "@": "at", "-": "dash", "_": "underscore", "?": "question mark",
          "&": "and", "=": "equals", "#": "hash", "%": "percent", ":": "colon", "+": "plus",
          "~": "tilde"}  # fmt: skip


def say_addresses(text: str) -> str:
    """`text` with "https://example.com/a" as "example dot com slash a"."""
    return _ADDRESS.sub(_say, text)


def _say(match: re.Match[str]) -> str:
    address = match.group()
    bare = address.rstrip(_TRAILING)
    tail = address[len(bare) :]
    bare = re.sub(r"^https?://", "", bare, flags=re.IGNORECASE).rstrip("/")
    bare = re.sub(r"^www\.", "", bare, flags=re.IGNORECASE)
    spoken = "".join(f" {_NAMES[char]} " if char in _NAMES else char for char in bare)
    return " ".join(spoken.split()) + tail


# How a sentence might go on, so that the words before sound as if it did.
#
# Words last twice as long, and fall in pitch, before a comma or an end. Before any words that go on
# they are within a tenth of their length in the whole sentence; nearest before some of which the
# first begins with the right letter.

_REST = "world."
_OTHERS = "part of the"
# Those of a few that left the word before nearest to its length at 180 cuts in 90 sentences, and
# begin as what follows does: a plosive closes the mouth before its time.
_BY_LETTER: Mapping[str, str] = {
    "a": "at the", "b": "by the", "c": "could be", "d": "due to the", "e": "every",
    "f": "from the", "g": "given the", "h": "here in the", "i": "in the", "j": "just in the",
    "k": "known in the", "l": "like the", "m": "more of the", "n": "near the", "o": "on the",
    "q": "quite a", "r": "right in the", "s": "still in the", "t": "to the", "u": "until the",
    "v": "very much in the", "w": "with the", "y": "you can",
}  # fmt: skip


def going_on(ahead: str) -> str:
    """Words that begin as `ahead` does; "" where that begins with no Latin letter.

    ahead: the first letter of what follows or more; a whole word where a blank is behind it.
    """
    words = ahead.split()
    if not words or not ("a" <= words[0][0].lower() <= "z"):
        return ""
    if len(words) > 1 or ahead[-1].isspace():
        return f"{words[0]} the {_REST}"
    return f"{_BY_LETTER.get(words[0][0].lower(), _OTHERS)} {_REST}"


# Text -> phoneme letters, one for each sound, with stress marks, blanks, punctuation.

# Behind an amount and a mark the dictionary takes any number for money: "$300, two percent".
_AMOUNT = re.compile(r"[$£€]\d")
_BEHIND_AMOUNT = re.compile(r"(?<=\d[,;:–—])\s|(?<=\d)\s(?=[(\[])")
_LETTER_A = re.compile(r"(\W*)[Aa](\W*)")
_SPLIT = re.compile(r"(?<=[,;:—.!?…])\s+|\s+")
_ENDINGS = frozenset(".,;:!?…—")


@cache
def letter_ids() -> dict[str, int]:
    """Every letter with its number in the English voice."""
    return dict(json.loads((Path(ASSETS) / "vocab.json").read_text("utf-8")))


class SpokenPart(NamedTuple):
    """Letters for a voice, and which of their words are to be heard."""

    letters: str
    owners: list[int | None]
    """For every word of the text the last of its spoken words, counted from `first`; None where
    that is in another part or unknown."""
    first: int
    """Spoken words before it were said already."""
    stop: int
    """So many spoken words up to the last one to be heard."""
    goes_on: bool
    """The words from `stop` on are there for the sentence to go on."""


@cache
def _grapheme_to_phoneme() -> G2P:
    """One for all voices, which share a lane: lexicon and tagger are 80 MB."""
    return G2P()


class EnglishLetters:
    """Turns text into phoneme letters, as every English voice reads them."""

    def __init__(self) -> None:
        self._grapheme_to_phoneme = _grapheme_to_phoneme()

    def parts(self, text: str, longest: int) -> list[str]:
        """Letters of `text`, in parts of at most `longest`; none where it has no sound."""
        return _parts(_ended(self._known(text)), longest)

    def spoken(self, text: str, longest: int, around: Surroundings = ALONE) -> Iterator[SpokenPart]:
        """`text` in parts of at most `longest` letters; what is around it only where that fits."""
        part = self._within(text, around)
        if part is not None and len(part.letters) <= longest:
            yield part
            return
        parts = self.parts(text, longest)
        counts = [len(ends_of_spoken_words(part)) for part in parts]
        owners = last_spoken_words(text, sum(counts))
        spoken = 0
        for letters, count in zip(parts, counts, strict=True):
            yield SpokenPart(letters, owners_within(owners, spoken, count), 0, count, False)
            spoken += count

    def _within(self, text: str, around: Surroundings) -> SpokenPart | None:
        """`text` with what is around it; None where that is nothing, or `text` has no sound."""
        before, ahead = self._known(around.before), self._known(going_on(around.ahead))
        said = self._known(text)
        if not said or not (before or ahead):
            return None
        first, count = (len(ends_of_spoken_words(letters)) for letters in (before, said))
        letters = _ended(" ".join(filter(None, (before, said, ahead))))
        owners = last_spoken_words(text, count)
        return SpokenPart(letters, owners, first, first + count, bool(ahead))

    def _known(self, text: str) -> str:
        """Letters of `text` that the voices have; "" where it has no sound."""
        if not text:
            return ""
        if (alone := _LETTER_A.fullmatch(text)) is not None:
            letters = f"{alone[1]}ˈA{alone[2]}"  # no article: "A股"
        else:
            said = say_numbers(say_addresses(text))
            parts = _BEHIND_AMOUNT.split(said) if _AMOUNT.search(said) else [said]
            letters = " ".join(map(self._letters, parts))
        known = "".join(letter for letter in letters if letter in letter_ids()).strip()
        return known if any(letter.isalpha() for letter in known) else ""

    def _letters(self, text: str) -> str:
        """Phoneme letters of `text`, as many as can be had."""
        try:
            return str(self._grapheme_to_phoneme(text))
        except Exception as error:  # rules of a library for text that nobody foresaw
            words = text.split()
            if len(words) < 2:
                log.warning("no pronunciation for a word of %d letters: %r", len(text), error)
                return ""
            middle = len(words) // 2
            halves = (" ".join(words[:middle]), " ".join(words[middle:]))
            return " ".join(filter(None, map(self._letters, halves)))


def ends_of_spoken_words(letters: str) -> list[int]:
    """Letters up to the end of each word, marks behind it left out."""
    ends: list[int] = []
    open_word = False
    for position, letter in enumerate(letters, start=1):
        if letter.isalpha():
            if not open_word:
                ends.append(position)
            ends[-1] = position
            open_word = True
        elif letter.isspace():
            open_word = False
    return ends


def spoken_word_ends(letters: str, hops: Sequence[int]) -> list[int]:
    """The hop where each word ends; hops: how long the beginning, each letter and the end last."""
    heard = list(accumulate(hops))
    return [heard[end] for end in ends_of_spoken_words(letters)]


def _ended(letters: str) -> str:
    """They go on: without a comma the voice drops as at the end of a sentence."""
    return letters + "," if letters and letters[-1] not in _ENDINGS else letters


def _parts(letters: str, longest: int) -> list[str]:
    parts, current = [], ""
    for word in _SPLIT.split(letters):
        for start in range(0, len(word), longest):
            piece = word[start : start + longest]
            if current and len(current) + 1 + len(piece) > longest:
                parts.append(current)
                current = piece
            else:
                current = f"{current} {piece}" if current else piece
    return [*parts, current] if current else parts


# Phoneme letters -> ARPABET with their durations.
#
# The voice writes one letter per sound, with stress marks in front of vowels and with blanks and
# punctuation between words; each of these has a duration of its own.

_VOWELS = {
    "A": "EY", "I": "AY", "W": "AW", "Y": "OY", "O": "OW", "Q": "OW",
    "æ": "AE", "ɑ": "AA", "a": "AA", "ɒ": "AA", "ɔ": "AO", "ɛ": "EH", "e": "EH", "ɜ": "ER",
    "ɚ": "ER", "ə": "AH", "ᵊ": "AH", "ɐ": "AH", "ʌ": "AH", "ɪ": "IH", "ᵻ": "IH", "ɨ": "IH",
    "i": "IY", "o": "OW", "u": "UW", "ʊ": "UH",
}  # fmt: skip
_CONSONANTS = {
    "b": "B", "d": "D", "f": "F", "h": "HH", "j": "Y", "k": "K", "l": "L", "m": "M", "n": "N",
    "p": "P", "s": "S", "t": "T", "v": "V", "w": "W", "z": "Z", "ɡ": "G", "ŋ": "NG", "ɹ": "R",
    "r": "R", "ʃ": "SH", "ʒ": "ZH", "θ": "TH", "ð": "DH", "ʤ": "JH", "ʧ": "CH", "T": "D",
    "ɾ": "D", "ʔ": "T", "x": "K", "c": "K", "q": "K", "ʣ": "Z", "ʦ": "S", "ç": "HH",
}  # fmt: skip
_STRESS = {"ˈ": "1", "ˌ": "2"}
_LENGTH_MARKS = frozenset("ːʰʲ̃")


def arpabet_spans(letters: Sequence[str], hops: Sequence[int]) -> list[Span]:
    """Spans of all of `letters` ("" stands for the padding at the ends); their hops add up.

    The time of a stress mark goes to its vowel, that of a blank to the sounds around it, that of
    punctuation to silence. "əɹ" and "ɜɹ" are one sound in ARPABET.
    """
    spans: list[Span] = []
    carried = 0
    stress = "0"
    for letter, length in zip(letters, hops, strict=True):
        if letter in _STRESS:
            stress = _STRESS[letter]
            carried += length
        elif letter in _LENGTH_MARKS or letter == " ":
            carried += _give_to_last(spans, length, share=0.5 if letter == " " else 1.0)
        elif letter == "ɹ" and spans and spans[-1].symbol.rstrip("012") == "ER" and not carried:
            _give_to_last(spans, length, share=1.0)
        elif letter == "ɹ" and spans and spans[-1].symbol == "AH0" and not carried:
            spans[-1] = Span("ER0", spans[-1].hops + length)
        elif letter in _VOWELS:
            spans.append(Span(_VOWELS[letter] + stress, length + carried))
            carried, stress = 0, "0"
        elif letter in _CONSONANTS:
            spans.append(Span(_CONSONANTS[letter], length + carried))
            carried = 0
        else:
            _give_silence(spans, length + carried)
            carried = 0
    if carried:
        _give_silence(spans, carried)
    return spans


def _give_to_last(spans: list[Span], length: int, *, share: float) -> int:
    """Lengthen the last span by its share; what is left for the next one comes back."""
    if not spans:
        return length
    if spans[-1].symbol == SILENCE:
        share = 1.0
    given = round(length * share)
    spans[-1] = Span(spans[-1].symbol, spans[-1].hops + given)
    return length - given


def _give_silence(spans: list[Span], length: int) -> None:
    if spans and spans[-1].symbol == SILENCE:
        spans[-1] = Span(SILENCE, spans[-1].hops + length)
    else:
        spans.append(Span(SILENCE, length))
