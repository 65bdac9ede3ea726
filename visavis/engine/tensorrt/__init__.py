"""Compiled plans on NVIDIA GPUs. Nothing here imports TensorRT or CUDA until it is asked to."""
