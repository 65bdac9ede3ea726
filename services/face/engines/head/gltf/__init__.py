"""A head's binary glTF 2.0 file, read: what of it is drawn, and what of it is not, by name.

A file comes from strangers: whatever it says is checked. After Khronos, "glTF 2.0 Specification",
and its registry of extensions; the VRM consortium, "VRM-1.0" and "VRMC_materials_mtoon-1.0".

- `file`: the container: its description, and lists of numbers by their index.
- `placing`: where nodes, bones and skins put the points of a mesh.
- `look`: what a material shows.
- `parts`: the parts of a head, and their shapes.
"""
