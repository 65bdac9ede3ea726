"""What running a plan takes of TensorRT and of CUDA, each imported when it is first asked for.

`trt_api`: the part of TensorRT that running a plan takes, as types.
`messages`: what TensorRT says while it works.
`device`: what an engine needs of a CUDA device.
`selection`: which device a setting means.
`cuda_python`: CUDA through NVIDIA's cuda-python.
`pycuda`: CUDA through PyCUDA.
"""
