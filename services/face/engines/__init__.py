"""How pictures are drawn: the engine that the settings name, and that of heads beside it.

- `base`: what every engine is, and how its networks are loaded.
- `choice`: the engine that the settings name.
- `beside`: heads beside the engine of pictures.
- `warp`: bends a photograph; needs no weights.

`head/` draws heads that are nobody's, `wav2lip/` has a network paint the mouth of the photograph
from the voice, `tha3/` has five pose a drawn character.
"""
