"""How pictures are drawn: one engine for the whole service, chosen by its settings (`choice.py`).

`warp` bends a photograph and needs no weights. `wav2lip` has a network paint the mouth of the
photograph from the voice. `tha3` has five networks pose a drawn character.
"""
