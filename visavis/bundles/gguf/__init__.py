"""Weights of a language model laid out for the fast kernels of a CPU.

llama.cpp multiplies eight rows at once where the weights are of a type that it can interleave
(Q4_0, Q4_K, IQ4_NL), and is quick with Q8_0; published files hold others.

`layout`: which weights change, and the file written so.
`block_types`: the types of blocks that are read or written.
`header`: the beginning of a GGUF file.
`prepared`: keeps what was made beside the compiled plans.
"""
