"""Compiled plans on NVIDIA GPUs. Nothing here imports TensorRT or CUDA until it is asked to.

`source`: where a plan comes from: a `.plan` file, or whoever compiles its model.
`compiled`: the backends `tensorrt` and `tensorrt_rtx`: a model by its plans, one or several.
`engine`: one plan on one GPU, loaded when needed and unloaded when idle.
`runner`: a plan at work: contexts, buffers and graphs on one stream of its own.
`plan`: what TensorRT tells of a plan: tensors, profiles, memory.
`context`: one execution context with its profile.
`buffers`: memory of tensors on both sides of the bus, and outputs that stay on the device.
`graphs`: CUDA graphs of one plan: which shapes deserve one, and those there are.
`profiling`: where time goes on a device.
`bindings`: what all that takes of TensorRT and of CUDA.
"""
