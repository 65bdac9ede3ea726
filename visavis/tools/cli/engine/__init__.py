"""`visavis engine`: plans for a GPU compiled, listed, checked, measured.

- `commands`: the commands and their options, which import no compiler
- `output`: the choice of plans, a running build, tables
- `build`: plans built, listed, checked
- `inspect`: what a plan says of itself
- `bench`: plans measured against the fallback
- `quality`: lower precisions measured against 32 bits
- `triton`: networks laid out for a Triton server
"""
