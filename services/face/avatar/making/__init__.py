"""From an uploaded picture to an avatar.

- `decoding`: uploaded pictures decoded within bounds, in a process of their own.
- `decode_process`: that process.
- `portrait`: a picture becomes a square portrait with a measured face, or a reason why not.
- `landmarks`: where faces are, and the 468 landmarks of one.
- `seen`: whether eyes and mouth are seen.
- `matte`: person and background parted.
- `maker`: a portrait becomes an avatar.
- `lids`: the closed lids, painted of the skin around them.
- `tflite`: a small network of the bundle, run on the CPU.
"""
