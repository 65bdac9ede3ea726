"""English words by which a text shows whether its speaker has finished."""

import re
from collections.abc import Sequence

from services.asr.turns.wording import ASKS, GOES_ON

WORD = re.compile(r"[\w']*\w[\w']*")
NUMBERS = frozenset("zero oh one two three four five six seven eight nine".split())
CODES = ("code", "pin", "password")
TELEPHONE = ("number", "call", "phone")

_REPLIES = frozenset(
    reply.strip()
    for reply in """
    yes, no, yeah, yep, nope, sure, okay, ok, right, exactly, really, of course, alright, all right,
    hello, hi, hey, hello there, good morning, good afternoon, good evening, good night,
    thanks, thank you, no thanks, no thank you, yes please, thank you very much, thanks a lot,
    all right thanks, alright thanks, goodbye, good bye, bye, bye bye, see you,
    stop, please stop, help, continue, go on, repeat that, say that again, never mind,
    why, why not, what, how, who are you, how are you, what is it, i see, i don't know,
    tomorrow, today, maybe, not yet, me too, not really, of course not, not at all
    """.split(",")
)
# Short answers begin so: "yes, I do", "no, not today".
_ANSWERING = frozenset(
    """yes no yeah yep nope sure okay ok maybe perhaps absolutely definitely certainly probably
    exactly fine great never""".split()
)
_MOST_ANSWERING_WORDS = 4
_IT_IS_SO = re.compile(r"i (?:do not |don't )?(?:think|guess|hope|suppose|believe) (?:so|not)")
_ASKING_SHORTLY = frozenset("who what when where why how which whose".split())
_MOST_ASKING_WORDS = 3
_FILLERS = frozenset("um uh er erm hmm mm uhm umm ah eh".split())
# Nothing ends with these, whatever mark the recogniser puts behind them.
_HANGING = frozenset(
    """and or but because although though unless until since while whereas if than
    the a an my your his its our their every each
    very really quite rather such which whose who whom
    could would should shall may might must cannot i'm we're they're you're i've we've
    mr mrs dr between among during without into onto toward towards per versus""".split()
)
_OPENING = frozenset(
    opening.strip()
    for opening in """
    well, so, now, but, like, actually, i, i think, okay so, the, my name is, excuse me,
    do you know, tell me, please tell me, can you tell me, could you tell me,
    could you please tell me, i wonder, i was wondering, let me ask you
    """.split(",")
)
# What names one of two lets expect the other, with the word behind it.
_COMPARED = "|".join(
    """bigger larger smaller faster slower taller longer shorter older younger better worse
    higher lower closer nearer farther further heavier lighter cheaper colder warmer hotter stronger
    healthier easier harder safer""".split()
)
_ONE_OF_TWO = (
    (re.compile(r"\bdifference between (.+)"), ("and",)),
    (re.compile(r"\bbetween (?:a|an|the) (.+)"), ("and",)),
    (
        re.compile(r"\beither (?:a|an|the|my|to|in|on|at|by|with|we|you|i|it|he|she|they) (.+)"),
        ("or",),
    ),
    (re.compile(r"\bwould you rather (.+)"), ("or", "than")),
    (
        re.compile(rf"\bwh\w+ (?:is|are) (?:{_COMPARED}) (?:a|an|the) (.+)"),
        ("or", "than"),
    ),
)
# "Between these", "between the lines": both are named.
_BOTH = frozenset(
    """us them you these those this that it two three four all both many various different people
    men women children""".split()
)
_AFTER_WHICH_IT_GOES_ON = (
    "you know",
    "i mean",
    "let me think",
    "let me see",
    "let me spell it",
    "and then",
    "for example",
    "such as",
    "i need",
    "i want",
    "i would like",
    "i'd like",
)
# Prepositions end a question ("what are you looking for?"), rarely a statement.
_STRANDED = frozenset("for to of with from at in on by about like as that".split())
_RELATIVE = frozenset("who what where which how why".split())
# "is" ends "tell me what it is", not "the thing I need is".
_VERBS_THAT_HANG = frozenset("is are was were be am has have had".split())
_SUBJECTS = frozenset(
    """i you he she it we they this that there here who what where how not yes no
    one all any never ever to""".split()
)
# "He was not ..." goes on, "of course not" does not.
_BEFORE_A_FINAL_NOT = frozenset(
    "course probably maybe why rather hope guess think certainly absolutely definitely or".split()
)
# A sentence that begins so and has no comma has not come to its main clause.
_OPENING_CLAUSE = frozenset("if although though unless while whenever once".split())
_QUESTION_WORDS = frozenset(
    """who what when where why how which whose whom what's who's where's how's when's
    is are was were do does did can could will would shall should have has had may am
    isn't aren't don't doesn't didn't can't couldn't won't""".split()
)
# A statement that tells something begins so; "that's" takes up what was said before.
_TELLING = frozenset(
    """i i'm i've my we we're we've our he he's his she she's her they they're they've their it it's
    the a an there there's this these yesterday today someone somebody""".split()
)
_OPENERS = frozenset("well so and but okay ok yes hello hi hey actually now".split())
_FEWEST_TELLING_WORDS = 4
_WANTING = re.compile(
    r"\b(?:please|tell|show|give|explain|help me|let's|wonder\w*|looking for|i'd like|i would like"
    r"|i want|i need|we need|we want|we'd like|we would like)\b"
)
# Anywhere in it: "I lost my passport what should I do".
_QUESTION_WITHIN = re.compile(
    r"\b(?:what|where|when|who|why|how|which)(?: \w+)? (?:is|are|was|were|do|does|did|can|could"
    r"|will|would|should|shall)\b|\b(?:can|could|will|would|do) you\b|\b(?:is|are) there\b"
)
_JOINS = frozenset("and but so or then".split())
# "When does it open" asks, "when the bell rings" begins a sentence.
_BEHIND_AN_ASKING_WHEN = frozenset(
    """is are was were do does did can could will would shall should have has had may am
    isn't aren't don't doesn't didn't can't couldn't won't exactly""".split()
)


def is_reply(text: str, words: Sequence[str]) -> bool:
    """All of it is an answer, a greeting or a wish of a few words."""
    return " ".join(words) in _REPLIES


def is_short(text: str, words: Sequence[str]) -> bool:
    """A short answer ("yes, I do") or question ("how come?"), which is no sentence of a book.

    Asked of what does not hang.
    """
    if words[0] in _ANSWERING or _IT_IS_SO.fullmatch(" ".join(words)):
        return len(words) <= _MOST_ANSWERING_WORDS
    asking = words[0] in _ASKING_SHORTLY and text.endswith(ASKS)
    return asking and len(words) <= _MOST_ASKING_WORDS


def hangs(text: str, words: Sequence[str]) -> bool:
    """It ends in a word with which nobody ends."""
    last, whole = words[-1], " ".join(words)
    if last in _FILLERS or last in _HANGING:
        return True
    if whole in _OPENING or whole.endswith(_AFTER_WHICH_IT_GOES_ON):
        return True
    if last in _STRANDED:
        return words[0] not in _QUESTION_WORDS and _RELATIVE.isdisjoint(words[1:-1])
    if last in _VERBS_THAT_HANG:
        return len(words) < 2 or words[-2] not in _SUBJECTS
    return any(_lacks_the_other(whole, named, joins) for named, joins in _ONE_OF_TWO)


def _lacks_the_other(whole: str, named: re.Pattern[str], joins: Sequence[str]) -> bool:
    """Whether something is named of two, and nothing joins the other to it."""
    if (found := named.search(whole)) is None:
        return False
    behind = found[1].split()
    plural = len(behind[-1]) > 3 and behind[-1].endswith("s") and not behind[-1].endswith("ss")
    return not plural and _BOTH.isdisjoint(behind) and set(joins).isdisjoint(behind)


def goes_on(text: str, words: Sequence[str]) -> bool:
    """A mark, a clause, "not" or a letter that is being spelt lets expect more."""
    last = words[-1]
    if last in _STRANDED or last in _VERBS_THAT_HANG:
        return False
    opening = words[0] in _OPENING_CLAUSE or _is_clause(words)
    clause = opening and not text.endswith(ASKS) and "," not in text[:-1]
    denied = last == "not" and not (len(words) > 1 and words[-2] in _BEFORE_A_FINAL_NOT)
    spelt = len(last) == 1 and last not in "ai" and len(words) > 1
    return text.endswith(GOES_ON) or clause or denied or spelt


def asks(text: str, words: Sequence[str]) -> bool:
    """ "And who invented it" asks as "who invented it" does. A recogniser's marks do not tell: it
    writes a comma behind whole questions and a question mark behind broken ones."""
    opening = words[words[0] in _JOINS and len(words) > 1 :]
    return opening[0] in _QUESTION_WORDS and not _is_clause(opening)


def _is_clause(words: Sequence[str]) -> bool:
    return len(words) > 1 and words[0] == "when" and words[1] not in _BEHIND_AN_ASKING_WHEN


def states(text: str, words: Sequence[str]) -> bool:
    """It tells something, asks and wants nothing, and is no short answer."""
    opened = next((at for at, word in enumerate(words) if word not in _OPENERS), 0)
    telling = words[opened] in _TELLING and len(words) - opened >= _FEWEST_TELLING_WORDS
    whole = " ".join(words)
    return telling and not (_WANTING.search(whole) or _QUESTION_WITHIN.search(whole))


def features(words: Sequence[str], recent: Sequence[str], length: int) -> list[str]:
    """What English shows beside what every language does, see finished_words.py."""
    first, (before, last) = words[0], recent[-2:]
    return [
        f"first {first} {length}",
        f"ending {last[-3:]}",
        f"endings {before[-2:]} {last[-2:]}",
        f"asks {first in _QUESTION_WORDS} {length}",
    ]
