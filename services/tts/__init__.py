"""Text to voice and mel, while the text is still being written.

- `settings`: what an operator may choose.
- `servicer`: the service on the wire, and the deployable.
- `session`: one attached session on the bus, at most so far ahead of what is heard.
- `phrase_feed`: text that comes in pieces, out as phrases with their styles.
- `speech_lane`: one synthesizer for all sessions, whose answers take turns on it.
- `synthesizer`: phrases to speech under one clock, with every voice there is.
- `speech_options`: how an answer is to be spoken, as it was asked for.
- `prosody`: what a style does to a voice, and what of it a voice can do.
- `phrase_cache`: the sound of phrases that are asked for often.
- `sound`: what the voices share: blocks, silence at their ends, loudness, log-mel.
- `word_ends`: which spoken word is which word of the text.

`text/` cuts and spells it, `voices/` speak it, `riva/` is the same for clients of NVIDIA's Riva.
"""
