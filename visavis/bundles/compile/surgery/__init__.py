"""What a published graph needs before TensorRT compiles it.

`editing`: reading and changing an ONNX graph.
`quantization`: quantised products and weights back to floats.
`passes`: the passes by name; those of one family of networks stand with it.
"""
