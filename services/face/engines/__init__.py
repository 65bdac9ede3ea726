"""How pictures are drawn: one engine for the whole service, chosen by its settings.

- `base`: what every engine is, and how its networks are loaded.
- `choice`: the engine that the settings name.
- `warp`: bends a photograph; needs no weights.

`wav2lip/` has a network paint the mouth of the photograph from the voice, `tha3/` has five pose a
drawn character.
"""
