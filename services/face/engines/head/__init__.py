"""A head that is nobody's, drawn from triangles: no photograph, no network, no graphics card.

- `engine`: one session, and what all of them share.
- `store`: heads by name, in folders.
- `checking`: a stranger's bundle, read within bounds.
- `bundle`: reads the files of a head.
- `framing`: camera, light, wall and portrait for a head that comes without.
- `gltf`: a folder, reads its binary glTF file.
- `model`: a head as compiled code reads it.
- `textures`: its textures, in as much detail as is seen.
- `light`: how bright it is, by where its surface looks.
- `visible`: a head without what is never seen of it, and with fewer ribbons in small pictures.
- `likeness`: lit as its portrait is.
- `renderer`: a pose becomes a picture.
- `raster`: a folder, the loops that draw it.
"""
