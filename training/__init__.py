"""How the weights that we trained ourselves were made; nothing that runs imports it.

- `inputs`: what each committed weight is made of, verified before anything is trained
- `audio_to_face`: mouth shapes from sound
- `turn_taking`: when a visitor has finished
- `calibration`: real inputs for INT8 plans
- `heads`: heads that are nobody's, out of numbers (an environment of its own, with Blender)
- `painter`: mouths of photographs, learnt from those heads; tried, and not shipped
- `wav2lip`, `tha3`: what the published code computes, to hold our graphs against
"""
