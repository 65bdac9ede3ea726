"""A head that is nobody's, drawn from triangles: no photograph, no network, no graphics card.

- `engine`: one session, and what all of them share.
- `store`: heads by name, in folders.
- `checking`: a stranger's bundle, read within bounds.
- `glb`: reads a binary glTF file.
- `bundle`: reads the files of a head.
- `model`: a head as compiled code reads it.
- `raster`: the loops that draw it.
- `renderer`: a pose becomes a picture.
"""
