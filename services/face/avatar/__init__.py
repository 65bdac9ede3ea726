"""What a face is made of, and how it is made: a folder that loads in a moment.

- `store`: avatars by name, in folders.
- `heads`: what clients need that draw an avatar themselves.
- `packing`: one avatar as one piece of bytes, for the replicas that share it.
- `avatar`: all that the renderer needs, and its folder.
- `consent`: what the person shown has agreed to, as whoever made the avatar has stated it.
- `topology`: which landmarks are lips, lids and outline.
- `mesh`: the triangles that carry it.
- `shapes`: how each coefficient moves them.
- `hidden`: what is hidden in a picture, painted of what is seen around it.

`making/` leads from an uploaded picture to an avatar.
"""
