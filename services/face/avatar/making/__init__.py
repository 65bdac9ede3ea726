"""From an uploaded picture to an avatar.

- `decoding`: uploaded pictures decoded within bounds, in a process of their own.
- `decode_process`: that process.
- `portrait`: a picture becomes a square portrait with a measured face, parted from what is behind
  it, or a reason why not.
- `landmarks`: where faces are, and the 468 landmarks of one.
- `maker`: a portrait becomes an avatar.
- `lids`: the closed lids, painted of the skin around them.
- `tflite`: a small network of the bundle, run on the CPU.
"""
