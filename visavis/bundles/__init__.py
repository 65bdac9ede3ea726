"""Weights: where they come from, what is made of them, and engines for them.

`store`: pulls bundles, and says where they lie.
`formats`: reads and writes the files that weights come in.
`compile`: makes TensorRT plans of a bundle's graphs.
`triton`: lays networks out for a Triton server.
`gguf`: lays a language model's weights out for a CPU.
`kept_graph`: keeps what ONNX Runtime has made of a network for this processor.
`engine_settings`: settings of the services that run the networks of bundles.
`making`: what every maker of a bundle out of the user's own weights shares.

One file or room for each family of networks, with all that is done to its graphs and weights:
`moonshine` and `whisper` hear, `moonshine_eight_bit` is how a CPU computes the former, `silero`
tells speech from other sound; `hibari`, `kokoro`, `piper` and `fastspeech_zh` speak, `hifigan` is a
vocoder; `wav2lip` paints mouths, `tha3` poses a drawn character.
"""
