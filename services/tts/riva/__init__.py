"""Speech synthesis for clients of NVIDIA's Riva, beside our own.

`servicer`: Riva's service on the wire.
"""
