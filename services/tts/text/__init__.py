"""Text on its way to a voice: cut into phrases, cleaned, parted by script, spelled.

- `chunker`: cuts what a language model writes into phrases, as early as they can be spoken.
- `script_runs`: takes out what cannot be spoken, and parts Chinese characters from Latin letters.
- `english_numbers`: English numbers, with what stands at them, as they are said.
- `english`: all else that is English about it, up to phoneme letters and ARPABET.
- `mandarin_numbers`: Mandarin numbers, likewise.
- `mandarin`: all else that is Mandarin about it, up to initials, finals and tones.
- `surroundings`: what is said around a phrase in its sentence.
"""
