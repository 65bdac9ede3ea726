"""A conversation to the messages that the model reads, within a token budget."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from services.llm.backends.base import ChatMessage, TokenCounter
from services.llm.passages import Passage, fitting, told
from services.llm.text_stream import SPECIAL_TOKEN, STRUCK_MARK
from services.llm.tools import called_name
from visavis.serving.errors import InvalidInputError

# What a chat template writes around each message, and once before the answer.
TEMPLATE_TOKENS = 8
# And around each call of a tool: its marks, the words "name" and "arguments".
CALL_TOKENS = 24
# A result that is cut keeps at least so much.
_SHORTEST_RESULT_TOKENS = 64
CUT_MARK = " […] "
# The visitor's question keeps at least this share of the budget.
_QUESTION_SHARE = 0.25
# And where it is told with what was called for it, this one: the results are read for its sake.
_QUESTION_SHARE_BESIDE_CALLS = 0.5
# When history overflows it is cut down to this share at once: cutting a little
# on every turn would change the prompt's beginning every time, and the model
# would have to read all of it again (seconds on a CPU) instead of what is new.
_KEEP_SHARE = 0.6
# A question, its answer and the next question are read anew at once.
_BARELY_BEGUN = 3
# By so many messages it is found again where a prompt began.
_TELLING_MESSAGES = 6
# More than any context holds; bounds what one request costs to clean and count.
_MOST_MESSAGES = 1_000
_LONGEST_MESSAGE_CHARS = 32_768
# Unicode's Cc, Cf (but the joiners of Indic scripts and emoji), Cs and Co; \n stays.
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b\u200e"
    "\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\ue000-\uf8ff"
    "\U000e0000-\U000e007f\U000f0000-\U0010ffff]"
)
_HAN = re.compile("[\u4e00-\u9fff]")
_KANA = re.compile("[\u3040-\u30ff]")
_LATIN_WORD = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?")
_FEWEST_TELLING_WORDS = 3
# That other languages in Latin letters do not have.
_ENGLISH = frozenset(
    "the are do does did can could what how who why where when which you your my and with it this "
    "that tell please thanks give".split()
)
# Who asks for the other language does not want that of the question.
_WANTS_CHINESE = re.compile(r"\b(?:in|into|to|speak) (?:chinese|mandarin)\b", re.IGNORECASE)
_WANTS_ANOTHER = re.compile("[用成说讲](?:[英法德日韩俄][文语]|西班牙语)")
_SPACE = re.compile("[\t\r\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")


class Beginning:
    """Where one conversation's prompts begin: none begins earlier than the one before it.

    Whoever sends the conversation drops old messages, too, and in what is left the places at which
    it is cut are others. A prompt that began earlier again would be read as a whole.
    """

    def __init__(self) -> None:
        self._first: tuple[ChatMessage, ...] = ()
        self._in_chinese: bool | None = None

    def in_chinese(self, messages: Sequence[ChatMessage]) -> bool:
        """Whether the persona says that answers are Chinese, as it did where they began: said or
        left out in the middle of a conversation, all of it would be read anew.
        """
        if self._in_chinese is None or len(messages) <= _BARELY_BEGUN:
            self._in_chinese = asks_in_chinese(messages)
        return self._in_chinese

    def from_here(self, history: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
        """What comes no earlier than the last prompt began; all, where that is not in it.

        Of its first exchanges one may be told otherwise by now: whoever sends the conversation
        leaves out an answer that was given again, and joins its question with the next one.
        """
        first = self._first
        for run in (first, first[:4], first[:2]):
            if (at := _place_of(run, history)) is not None:
                return history[at:]
        at = _place_of(first[3:], history)  # behind the question that the first was joined with
        return history[at - 1 :] if at else history

    def note(self, history: Sequence[ChatMessage]) -> None:
        """A prompt has been made, of this before its question."""
        self._first = tuple(history[:_TELLING_MESSAGES])


def _place_of(run: Sequence[ChatMessage], history: Sequence[ChatMessage]) -> int | None:
    """Where these messages stand in it, one behind the other."""
    places = range(len(history) - len(run) + 1) if run else ()
    return next((at for at in places if tuple(history[at : at + len(run)]) == tuple(run)), None)


def build_prompt(
    messages: Sequence[ChatMessage],
    *,
    persona: str,
    budget_tokens: int,
    count_tokens: TokenCounter,
    passages: Sequence[Passage] = (),
    beginning: Beginning | None = None,
) -> tuple[ChatMessage, ...]:
    """The system message, then as much of the newest history as fits.

    passages: what is known of the newest question, told with it as far as there is room.
    beginning: of this conversation's prompts so far; it is told where this one begins.

    `persona` stands in where the conversation brings no system message. Oldest
    pairs go first, always in the same places as the conversation grows. A
    question that is too long loses its middle, with a mark in its place.

    Raises InvalidInputError for roles in a wrong order, an empty question, or
    a system message that leaves no room.
    """
    if len(messages) > _MOST_MESSAGES:
        system = messages[:1] if messages[0].role == "system" else ()
        messages = (*system, *messages[-_MOST_MESSAGES:])
    clean = tuple(map(_clean, messages))
    _check_order(clean)
    has_system = clean[0].role == "system"
    system = clean[:1] if has_system else _persona(persona)
    system_tokens = sum(_cost(m, count_tokens) for m in system)
    room = budget_tokens - system_tokens
    if room < budget_tokens * _QUESTION_SHARE:
        raise InvalidInputError(
            f"messages: the system message takes {system_tokens} tokens; at most "
            f"{int(budget_tokens * (1 - _QUESTION_SHARE))} of {budget_tokens} may be its"
        )
    merged = _merge(clean[1:] if has_system else clean)
    asked = max(at for at, message in enumerate(merged) if message.role == "user")
    newest = _with_known(merged[asked:], room, passages, count_tokens)
    before = merged[:asked] if beginning is None else beginning.from_here(merged[:asked])
    fitting_ones = _newest((*before, *newest), room, count_tokens, kept=len(newest))
    if beginning is not None:
        beginning.note(fitting_ones[: -len(newest)])
    return (*system, *fitting_ones)


def fits_surely(messages: Sequence[ChatMessage], persona: str, budget_tokens: int) -> bool:
    """True if no tokenizer could make too many tokens of this: no need to count.

    A byte-level tokenizer makes at most one token of a byte.
    """
    texts = [persona, *(m.content for m in messages)]
    calls = [call for message in messages for call in _calls(message)]
    if sum(map(len, (*texts, *calls))) > budget_tokens:
        return False
    size = sum(len(text.encode()) + TEMPLATE_TOKENS for text in texts)
    size += sum(len(call.encode()) + CALL_TOKENS for call in calls)
    system_size = max(len(persona.encode()), len(messages[0].content.encode()) if messages else 0)
    return size <= budget_tokens and system_size + TEMPLATE_TOKENS <= budget_tokens * (
        1 - _QUESTION_SHARE
    )


def asks_in_chinese(messages: Sequence[ChatMessage]) -> bool:
    """The language of the newest question; a word or two ("OK") does not change it."""
    for message in reversed(messages):
        if message.role != "user":
            continue
        if _HAN.search(message.content):
            return not (_KANA.search(message.content) or _asks_of_chinese(message.content))
        if len(message.content.split()) >= _FEWEST_TELLING_WORDS:
            return False
    return False


def _asks_of_chinese(text: str) -> bool:
    """Whether a few Chinese words stand in an English sentence: "What does 你好 mean?"."""
    words = _LATIN_WORD.findall(text)
    han = _HAN.findall(text)
    return (
        len(words) >= max(_FEWEST_TELLING_WORDS, len(han) + 1)
        and text.index(words[0]) < text.index(han[0])
        and not _ENGLISH.isdisjoint(word.lower() for word in words)
    )


def changes_language(messages: Sequence[ChatMessage], *, in_chinese: bool) -> bool:
    """Whether the question before the newest was in another language: what was said in that stands
    nearer than the persona.
    """
    asked = [at for at, message in enumerate(messages) if message.role == "user"]
    return len(asked) > 1 and asks_in_chinese(messages[: asked[-2] + 1]) is not in_chinese


def told_its_language(
    messages: Sequence[ChatMessage], *, in_chinese: bool
) -> tuple[ChatMessage, ...]:
    """The conversation, whose newest question says in which language it wants its answer."""
    at = max((at for at, m in enumerate(messages) if m.role == "user"), default=None)
    if at is None:
        return tuple(messages)
    question, note = messages[at], ""
    if (_WANTS_ANOTHER if in_chinese else _WANTS_CHINESE).search(question.content):
        return tuple(messages)
    if in_chinese:
        note = "（请只用中文回答。）"
    elif _ENGLISH & set(question.content.lower().split()):
        note = " (Please answer in English only.)"
    told = replace(question, content=f"{question.content}{note}")
    return (*messages[:at], told, *messages[at + 1 :])


def clean_text(text: str) -> str:
    """Without control characters and chat template tokens, with plain white space.

    A template token inside a message would let its author speak as somebody else.
    """
    if len(text) > _LONGEST_MESSAGE_CHARS:
        text = _without_middle(text, _LONGEST_MESSAGE_CHARS)
    return without_special_tokens(_SPACE.sub(" ", _CONTROL.sub("", text))).strip()


def without_special_tokens(text: str) -> str:
    """Without chat template tokens, of what is left over, too; those that are HTML as well are no
    tokens any more, but can be read.
    """
    while (stripped := SPECIAL_TOKEN.sub("", text)) != text:
        text = stripped
    return STRUCK_MARK.sub(lambda mark: f"< {mark[0][1:]}", text)


def _clean(message: ChatMessage) -> ChatMessage:
    calls = tuple(
        replace(call, name=called_name(call.name), arguments=clean_text(call.arguments))
        for call in message.tool_calls
    )
    return replace(message, content=clean_text(message.content), tool_calls=calls)


def _calls(message: ChatMessage) -> list[str]:
    """What a message calls, as text that is counted."""
    return [f"{call.name} {call.arguments}" for call in message.tool_calls]


def _check_order(messages: Sequence[ChatMessage]) -> None:
    if not messages:
        raise InvalidInputError("messages: none given; the last one must be the user's")
    for index, message in enumerate(messages):
        if message.role == "system" and index:
            raise InvalidInputError(
                f"messages[{index}].role: SYSTEM is allowed only as the first message"
            )
    last = messages[-1]
    if last.role not in ("user", "tool"):
        raise InvalidInputError(
            f"messages[{len(messages) - 1}].role: the last message must be USER, "
            f"not {last.role.upper()}; or TOOL, with the result of a call"
        )
    if last.role == "user" and not last.content:
        raise InvalidInputError(f"messages[{len(messages) - 1}].content: nothing to answer in it")
    if not any(message.role == "user" and message.content for message in messages):
        raise InvalidInputError("messages: no question in them")


def _persona(persona: str) -> tuple[ChatMessage, ...]:
    return (ChatMessage("system", persona),) if persona else ()


def _merge(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Roles taking turns, as chat templates want it: empty ones dropped, neighbours joined."""
    merged: list[ChatMessage] = []
    for message in messages:
        calls = message.role == "tool" or message.tool_calls
        if not message.content and not calls:
            continue
        if merged and merged[-1].role == message.role and not (calls or merged[-1].tool_calls):
            joined = f"{merged[-1].content}\n{message.content}"
            merged[-1] = ChatMessage(message.role, joined)
        else:
            merged.append(message)
    return merged


def _cost(message: ChatMessage, count_tokens: TokenCounter) -> int:
    calls = sum(count_tokens(call) + CALL_TOKENS for call in _calls(message))
    return count_tokens(message.content) + TEMPLATE_TOKENS + calls


def _newest(
    messages: Sequence[ChatMessage], room: int, count_tokens: TokenCounter, *, kept: int
) -> Sequence[ChatMessage]:
    """Replays the conversation's growth, so that a longer one is cut at the same places.

    kept: so many at the end stay, which have room.
    """
    costs = [_cost(message, count_tokens) for message in messages]
    start = total = 0
    for end, cost in enumerate(costs):
        total += cost
        if total > room:
            while start < min(end, len(messages) - kept) and total > room * _KEEP_SHARE:
                total -= costs[start]
                start += 1
    # Begin with a question, not with the answer to one that is gone.
    while messages[start].role != "user":
        start += 1
    return messages[start:]


def _with_known(
    messages: Sequence[ChatMessage],
    room: int,
    passages: Sequence[Passage],
    count_tokens: TokenCounter,
) -> list[ChatMessage]:
    """The newest question and its calls, fitted, with what is known of it."""
    known = fitting(passages, room, count_tokens)
    if not known:
        return _fit_exchange(messages, room, count_tokens)
    in_chinese = asks_in_chinese(messages)
    taken = count_tokens(told("", known, in_chinese=in_chinese))
    fitted = _fit_exchange(messages, room - taken, count_tokens)
    question = told(fitted[0].content, known, in_chinese=in_chinese)
    return [replace(fitted[0], content=question), *fitted[1:]]


def _fit_exchange(
    messages: Sequence[ChatMessage], room: int, count_tokens: TokenCounter
) -> list[ChatMessage]:
    """The newest question, and what was called for it: what is long loses its middle."""
    fitted = list(messages)
    costs = [_cost(message, count_tokens) for message in fitted]
    if len(fitted) == 1:
        return [_fit(fitted[0], room, count_tokens)]
    if (over := sum(costs) - room) > 0:
        left = max(costs[0] - over, int(room * _QUESTION_SHARE_BESIDE_CALLS))
        fitted[0] = _fit(fitted[0], left, count_tokens)
        costs[0] = _cost(fitted[0], count_tokens)
    results = [at for at, message in enumerate(fitted) if message.role == "tool"]
    for at in sorted(results, key=lambda at: -costs[at]):
        if (over := sum(costs) - room) <= 0:
            break
        left = max(costs[at] - over, _SHORTEST_RESULT_TOKENS)
        if left < costs[at]:
            fitted[at] = _fit(fitted[at], left, count_tokens)
            costs[at] = _cost(fitted[at], count_tokens)
    if sum(costs) > room:
        raise InvalidInputError(
            f"messages: the question and its tool calls take {sum(costs)} tokens, and there is "
            f"room for {room}"
        )
    return fitted


def _fit(message: ChatMessage, room: int, count_tokens: TokenCounter) -> ChatMessage:
    """`message`, or its beginning and end. People ask at either end of a long text."""
    text = message.content
    keep = len(text)
    while (tokens := count_tokens(text) + TEMPLATE_TOKENS) > room:
        # In proportion, and a little less so that it comes to an end.
        keep = min(int(keep * 0.95 * room / tokens), keep - 1)
        if keep < 2:
            raise InvalidInputError(f"messages: no room for the question in {room} tokens")
        text = _without_middle(message.content, keep)
    return replace(message, content=text)


def _without_middle(text: str, keep_chars: int) -> str:
    tail = keep_chars // 3
    head = keep_chars - tail
    return text[:head].rstrip() + CUT_MARK + text[len(text) - tail :].lstrip()
