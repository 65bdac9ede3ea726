"""The compiled loops that draw a head: triangles in depth, their colours, and smooth edges.

Everything here releases the interpreter lock, touches only its arguments and gives the same bytes
for the same input. Pixels have their centres at whole numbers. Of depth its inverse is kept, which
is linear on the screen: larger is nearer. Vertices are in perspective; within a triangle, of which
a head has thousands, textures go the straight way.

A triangle covers some dozen pixels at most, in rows of four: what costs time is not arithmetic but
every choice that the processor cannot foretell. So loops have no ifs in them, go over more pixels
than a triangle has, and keep lists of what is left.

- `work`: what every picture overwrites.
- `carriage`: where a pose carries the head.
- `vertices`: the face moved, the head turned and lit.
- `planes`: what a triangle has in each pixel, and which pixels it covers.
- `lanes`: vector instructions that LLVM does not find by itself.
- `lines`: those that go over the lines of a triangle.
- `solid`: what hides what is behind it.
- `clear`: hair, which does not always.
- `colours`: what is nearest gets its colours.
- `edges`: smooth outlines, soft hair.
- `picture`: one picture, from beginning to end.
"""
