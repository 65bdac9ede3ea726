"""The voices: text in, blocks of sound with phonemes and word ends out.

- `base`: which voices of ours there are, and who speaks what.
- `english`: Hibari, whose melody a style bends.
- `mandarin`: FastSpeech 2 and multi-band MelGAN, vocoded piece by piece.
- `kokoro`: an English voice of Kokoro, which is a style.
- `piper`: an English voice of the user's own.
- `joining`: phrases of a sentence that sound as if they were made in one.
- `opening`: how all of them are loaded.
"""
