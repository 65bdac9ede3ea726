"""Speech recognition for clients of NVIDIA's Riva, beside our own.

`incoming`: raw samples or a file that comes in pieces, to samples.
`servicer`: Riva's service on the wire.
"""
