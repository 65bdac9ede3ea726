"""Sound is found again at its position, and frames as quiet as the room are told."""

import numpy as np
import pytest

from services.asr.hearing.detectors import FRAME_SAMPLES
from services.asr.sound import Bystanders, FarVoices, QuietFrames, Tape


def test_what_is_gone_or_not_yet_there_is_left_out() -> None:
    tape = Tape()
    tape.append(np.arange(1000, dtype=np.float32))
    tape.forget(400)
    assert np.array_equal(tape.between(0, 410), np.arange(400, 410))
    assert len(tape.between(990, 2000)) == 10
    assert len(tape.between(5000, 6000)) == 0
    assert len(tape.between(10, 5)) == 0


def test_a_copy_is_given_not_the_buffer() -> None:
    tape = Tape()
    tape.append(np.ones(100, np.float32))
    piece = tape.between(0, 100)
    tape.append(np.ones(100, np.float32))
    piece[:] = 5
    assert tape.between(0, 100).max() == 1


def test_a_long_monologue_does_not_leave_its_size_behind() -> None:
    tape = Tape()
    for _ in range(120):
        tape.append(np.zeros(16_000, np.float32))
    large = tape.capacity
    for _ in range(20):
        tape.forget(tape.end - 8000)
        tape.append(np.zeros(512, np.float32))
    assert tape.capacity < large / 16


def noise(level: float, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=FRAME_SAMPLES) * level).astype(np.float32)


def after_speech(room: float, speech: float = 0.1) -> QuietFrames:
    quiet = QuietFrames()
    for i in range(30):
        quiet.is_quiet(noise(room, i), 0.0)
    for i in range(20):
        assert not quiet.is_quiet(noise(speech, i), 1.0)
    return quiet


def test_the_room_is_known_by_its_level_while_the_vad_still_hears_speech() -> None:
    assert after_speech(room=0.001).is_quiet(noise(0.001), 0.9)
    assert not after_speech(room=0.001).is_quiet(noise(0.01), 0.9)


def test_speech_that_is_hardly_above_the_room_is_left_to_the_vad() -> None:
    assert not after_speech(room=0.03).is_quiet(noise(0.03), 0.9)


def test_a_room_that_gets_louder_is_learned() -> None:
    quiet = after_speech(room=0.0005)
    assert not quiet.is_quiet(noise(0.005), 0.0)
    for i in range(60):
        quiet.is_quiet(noise(0.005, i), 0.0)
    for i in range(5):
        quiet.is_quiet(noise(0.2, i), 1.0)
    assert quiet.is_quiet(noise(0.005), 0.9)


def test_the_talk_of_a_full_room_is_nobodys_speech_behind_a_louder_visitor() -> None:
    """All of it is speech to the VAD."""
    bystanders = Bystanders()
    for i in range(20):
        assert not bystanders.are_all(noise(0.03, i), 1.0, speaking=False), (
            "there is no visitor yet"
        )
    for i in range(20):
        assert not bystanders.are_all(noise(0.1, i), 1.0, speaking=True)
    behind = [bystanders.are_all(noise(0.03, i), 1.0, speaking=True) for i in range(30)]
    assert not any(behind[:6]) and all(behind[16:]), "half a second later, the first time"
    for i in range(20):
        bystanders.are_all(noise(0.1, i), 1.0, speaking=True)
    behind = [bystanders.are_all(noise(0.03, i), 1.0, speaking=True) for i in range(30)]
    assert not any(behind[:6]) and all(behind[8:]), "a quarter of a second from then on"
    heard = [bystanders.are_all(noise(0.06, i), 1.0, speaking=True) for i in range(20)]
    assert not any(heard), "a softer visitor"


@pytest.mark.parametrize("sound", [0.0, 0.5e-4])
def test_a_microphone_that_was_shut_is_no_quiet_room(sound: float) -> None:
    """A muted one, or the gate of a browser, between what a visitor says in a full room."""
    bystanders = Bystanders()
    for _ in range(3):
        for i in range(30):
            assert not bystanders.are_all(noise(sound, i), 0.0, speaking=False)
        for i in range(20):
            bystanders.are_all(noise(0.03, i), 1.0, speaking=False)
            assert not bystanders.are_all(noise(0.1, i), 1.0, speaking=True)
        behind = [bystanders.are_all(noise(0.03, i), 1.0, speaking=True) for i in range(60)]
        assert not any(behind[:6]) and all(behind[32:])


def test_the_soft_end_of_a_voice_that_opened_the_microphone_is_heard() -> None:
    bystanders = Bystanders()
    bystanders.are_all(noise(0.0), 0.0, speaking=False)
    for level in (0.1, 0.03):
        for i in range(20):
            assert not bystanders.are_all(noise(level, i), 1.0, speaking=True)


def test_in_a_full_room_who_begins_has_to_be_nearer_to_the_visitors_level() -> None:
    bystanders = Bystanders()
    for level in (0.02, 0.1, 0.02):
        for i in range(20):
            bystanders.are_all(noise(level, i), 1.0, speaking=level == 0.1)
    assert all(bystanders.are_all(noise(0.04, i), 1.0, speaking=False) for i in range(20))
    assert not any(bystanders.are_all(noise(0.04, i), 1.0, speaking=True) for i in range(20))
    later = [bystanders.are_all(noise(0.1, i), 1.0, speaking=False) for i in range(20)]
    assert not any(later[3:]), "the visitor speaks again"


def test_who_speaks_softly_in_a_quiet_room_is_heard() -> None:
    bystanders = Bystanders()
    for i in range(20):
        bystanders.are_all(noise(0.0005, i), 0.0, speaking=False)
    for i in range(20):
        assert not bystanders.are_all(noise(0.1, i), 1.0, speaking=True)
    assert not any(bystanders.are_all(noise(0.01, i), 1.0, speaking=False) for i in range(60))


def test_a_voice_that_begins_at_once_and_fades_is_not_taken_for_a_room() -> None:
    bystanders = Bystanders()
    levels = [0.06, *[0.1] * 30, *np.geomspace(0.1, 0.01, 20)]
    heard = [
        bystanders.are_all(noise(level, i), 1.0, speaking=True) for i, level in enumerate(levels)
    ]
    assert not any(heard)


class Room:
    """A visitor and other voices in it, all of them speech to the VAD."""

    def __init__(self) -> None:
        self.far = FarVoices()

    def visitor_says(self, level: float, frames: int = 60) -> int:
        """How many frames of it were taken for a far voice's. Silence of an answer follows."""
        missed, loudest = 0, 0.0
        for i in range(frames):
            missed += self.far.are_all(noise(level, i), 1.0, speaking=i > missed)
            loudest = self.far.loudest
        self.far.ended()
        self.far.learn(loudest, frames)
        self.is_quiet(200)
        return missed

    def others_say(self, level: float, frames: int = 100) -> int:
        """How many frames of it were taken for a far voice's; a breath follows."""
        far = sum(self.far.are_all(noise(level, i), 1.0, speaking=False) for i in range(frames))
        self.is_quiet(20)
        return far

    def is_quiet(self, frames: int) -> None:
        for i in range(frames):
            assert not self.far.are_all(noise(0.001, i), 0.0, speaking=False)


def test_a_voice_far_below_the_visitor_that_goes_on_is_nobodys() -> None:
    room = Room()
    for _ in range(2):
        assert room.visitor_says(0.1) == 0
    assert room.others_say(0.01) == 0, "it may be himself"
    for _ in range(4):
        room.others_say(0.01)
    assert room.others_say(0.01) == 100
    assert room.others_say(0.025) == 0, "12 dB below: another visitor, or he has leant back"
    assert room.visitor_says(0.025) == 0
    assert room.others_say(0.01) > 90, "what is softer moves nothing"


def test_who_whispers_and_waits_to_be_answered_is_heard() -> None:
    room = Room()
    room.visitor_says(0.1)
    assert [room.visitor_says(0.01) for _ in range(20)] == [0] * 20


def test_no_voice_is_far_before_the_visitor_is_known() -> None:
    room = Room()
    assert [room.others_say(0.01) for _ in range(10)] == [0] * 10
    room.visitor_says(0.1, frames=30)
    assert [room.others_say(0.01) for _ in range(10)] == [0] * 10, "too little of him"
    room.visitor_says(0.1, frames=30)
    for _ in range(5):
        room.others_say(0.01)
    assert room.others_say(0.01) == 100


def test_one_shout_is_no_level_of_a_visitor() -> None:
    room = Room()
    for level in (0.05, 0.05, 0.5):
        room.visitor_says(level)
    assert [room.others_say(0.03) for _ in range(10)] == [0] * 10


def test_a_television_that_was_there_first_does_not_make_the_visitor_far() -> None:
    room = Room()
    for _ in range(6):
        room.others_say(0.01)
        room.visitor_says(0.01)
    assert [room.visitor_says(0.1) for _ in range(2)] == [0, 0]
    for _ in range(5):
        room.others_say(0.01)
    assert room.others_say(0.01) == 100
