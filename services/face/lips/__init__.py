"""What the mouth does, frame by frame, from phonemes or from the sound itself.

- `turn_lips`: the lips of each turn, from its mel where that has phonemes, else from its voice.
- `lips`: lips over the time of one turn.
- `phonemes`: the mouth shapes of every phoneme, ARPABET and pinyin.
- `visemes`: phoneme spans to lip coefficients, with coarticulation.
- `loudness`: how wide the jaw opens for what is said loud or softly.
- `audio_to_face`: the network that reads lips off a voice, and its features.
- `sound_track`: what an engine that draws from the voice hears of a turn.
"""
