"""Two minutes at twenty comments a second, by a clock that is turned by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from gateway.room.choosing.comments import Outcome
from gateway.room.choosing.host import Why
from gateway.room.choosing.likeness import likeness, shape_of
from gateway.room.choosing.safety import WordList, shipped_words
from tests.tools.bench.room import Run, run
from visavis.tools.bench.room.replay import BLOCKED, letters_of

WITHIN_S = 30.0


@pytest.fixture(scope="module")
def minutes() -> Run:
    return run(20.0, 120.0, answer_within_s=WITHIN_S)


def test_no_answer_is_older_than_thirty_seconds(minutes: Run) -> None:
    assert len(minutes.ages_s) > 5
    assert max(minutes.ages_s) <= WITHIN_S
    late = minutes.host.selection.outcomes[Outcome.LATE]
    assert late > 0, "some took too long, and were not said"


def test_none_is_answered_twice(minutes: Run) -> None:
    comments = [s.entry.comment.id for s in minutes.spoken if s.entry is not None]
    assert len(set(comments)) == len(comments)
    spoken = [s for s in minutes.spoken if s.outcome is Outcome.ANSWERED and s.entry]
    for i, one in enumerate(spoken):
        for other in spoken[max(0, i - 15) : i]:
            assert one.entry and other.entry
            alike = likeness(shape_of(one.entry.text), shape_of(other.entry.text), 0.82)
            assert alike < 0.82, (one.text, other.text)


def test_no_blocked_word_is_read(minutes: Run) -> None:
    """As the room finds them, and by what does not know how it does."""
    words = WordList([*shipped_words(), *BLOCKED])
    assert minutes.host.selection.outcomes[Outcome.BLOCKED_WORD] > 100
    for speech in minutes.spoken:
        assert words.find(speech.text) == ""
        assert not any(word in letters_of(speech.text) for word in BLOCKED), speech.text


def test_the_queue_is_bounded_and_every_comment_accounted_for(minutes: Run) -> None:
    host = minutes.host
    assert host.selection.received > 2_000
    assert minutes.longest_queue == host.selection.rules.places
    assert sum(host.selection.outcomes.values()) + host.unsettled == host.selection.received
    assert host.unsettled == 0, "it has been quiet for a while"


def test_every_gift_is_thanked_for_and_no_author_takes_the_room(minutes: Run) -> None:
    thanks = [speech for speech in minutes.spoken if speech.why is Why.THANKS]
    assert sum(s.gifts for s in thanks) == minutes.host.selection.outcomes[Outcome.THANKED] > 100
    authors = Counter(s.entry.comment.author_key for s in minutes.spoken if s.entry)
    assert authors.most_common(1)[0][1] <= 2
