"""The face for other engines, as clients of NVIDIA's Audio2Face-3D ask for it.

`weights`: what a client changes of the weights, and which of our styles its emotions are.
`servicer`: Audio2Face-3D's service on the wire.
"""
