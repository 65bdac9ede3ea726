"""What a face is made of, from an uploaded picture to a folder that loads in a moment.

- `store`: avatars by name, in folders.
- `packing`: one avatar as one piece of bytes, for the replicas that share it.
- `decoding`: uploaded pictures decoded within bounds, in a process of their own.
- `decode_process`: that process.
- `portrait`: a picture becomes a square portrait with a measured face, or a reason why not.
- `landmarks`: where faces are, and the 468 landmarks of one.
- `topology`: which landmarks are lips, lids and outline.
- `matte`: person and background parted, and what the person hides painted.
- `maker`: a portrait becomes an avatar.
- `mesh`: the triangles that carry it.
- `shapes`: how each coefficient moves them.
- `lids`: the closed lids, painted of the skin around them.
- `avatar`: all that the renderer needs, and its folder.
- `tflite`: a small network of the bundle, run on the CPU.
"""
