"""In the place of cuda-python's package."""
