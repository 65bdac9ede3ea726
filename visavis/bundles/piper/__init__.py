"""Voices of Piper: VITS networks, exported by its own tools.

`making`: a voice bundle out of the .onnx file and the .json beside it.
`vits`: the graph cut in two at its length regulator.
`splines`: its splines without picking by value, which TensorRT does not compile.
"""
