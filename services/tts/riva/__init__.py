"""Speech synthesis for clients of NVIDIA's Riva, beside our own.

`encoders`: the voice as bytes, at the rate and in the form that a client asks for.
`servicer`: Riva's service on the wire.
"""
