"""Weights of a language model laid out for the fast kernels of a CPU.

llama.cpp multiplies eight rows at once where the weights are of a type that it can interleave
(Q4_0, Q4_K, IQ4_NL), and is quick with Q8_0; published files hold others. `cpu_layout.py` says
which weights change, `rewrite.py` makes the file, `prepared.py` keeps it beside compiled plans.
"""
