"""A head as browsers and the face service draw it: what goes into its GLB.

- `cards`: strands as ribbons, for real time
- `textures`: pictures that a head wears
- `glb`: writes glTF
"""
