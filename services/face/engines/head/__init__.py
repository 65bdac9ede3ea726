"""A head that is nobody's, drawn from triangles: no photograph, no network, no graphics card.

- `engine`: one session, and what all of them share.
- `store`: heads by name, in folders.
- `checking`: a stranger's bundle, read within bounds.
- `bundle`: reads the files of a head.
- `glb`: reads a binary glTF file.
- `model`: a head as compiled code reads it.
- `clothes`: what they ask of the head that wears them.
- `textures`: its textures, in as much detail as is seen.
- `light`: how bright it is, by where its surface looks.
- `ribbons`: fewer of them, for small pictures.
- `visible`: a head without what is never seen of it.
- `likeness`: lit as its portrait is.
- `renderer`: a pose becomes a picture.
- `raster`: a folder, the loops that draw it.
"""
