"""Poses, pictures of them, and the stream that they are sent as.

- `animator`: the timeline of one face, which says what to draw next and when.
- `loop`: idle life that repeats, and what viewers see of a face that is shown from memory.
- `pose`: one instant of a face, and the frame that shows it.
- `blendshapes`: a pose as ARKit's weights, for clients that draw themselves.
- `pictures`: one session's pictures, painted and encoded.
- `renderer`: an avatar drawn in a pose.
- `head_turn`: where each point of the mesh is as the head turns.
- `compiling`: how loops are compiled.
- `raster`: the loops that paint triangles.
- `mouth`: teeth, tongue and the dark behind them.
- `eyes`: the balls behind the lids, and the lids.
- `encoder`: pictures to H.264 or VP8, as fine as the bits that are allowed.
"""
