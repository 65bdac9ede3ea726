"""Stand-ins for the modules of a machine with a GPU.

With this folder on PYTHONPATH a process finds `tensorrt` and `cuda.bindings.runtime` that are
the doubles: one GPU, one compiler, and all else is the product's own.
"""
