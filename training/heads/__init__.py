"""Heads that are nobody's: from numbers in `people.toml` to the bundles that the face draws.

- `people`: who is built
- `base_mesh`: MakeHuman's body and targets and the 52 shapes, as arrays
- `geometry`: subdivision, surfaces of revolution, what follows what
- `head`: the skin of a head, its texture, its regions
- `eyes`, `mouth`: eyeballs, teeth, tongue
- `groom`: hair, brows and lashes as strands
- `gltf`: a folder, what goes into a GLB: ribbons, pictures, the file
- `blender`: a folder, pictures and bakes (imports bpy, GPL-3.0)
- `bundle`: all of it, in order
- `sheet`: a bundle drawn in many poses, to look at
"""
