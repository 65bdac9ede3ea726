"""The Triton backend."""
