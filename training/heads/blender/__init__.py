"""What asks Blender: pictures of a head, and what is baked into its textures.

Blender is GPL-3.0 and so is what imports `bpy`: this folder is a tool to make heads with, never
installed with the product. What it makes belongs to whoever runs it.

- `nodes`: objects and shader trees, written shortly
- `materials`: skin, eyes, teeth, hair, cloth
- `actor`: a head as objects of a scene
- `studio`: light, camera, pictures and bakes
"""
