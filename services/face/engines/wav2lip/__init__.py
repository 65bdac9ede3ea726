"""Wav2Lip: a network paints the lower half of the face from the voice, 96 pixels across.

- `engine`: one session, and what all of them share.
- `mel`: what the network hears.
- `face_crop`: what it sees, and how its picture goes back into the portrait.
- `network`: its runs, ahead of time and for all sessions together.

Its picture of the mouth goes into the texture of the avatar, which the renderer then turns and
sways like any other: so the network always sees the portrait as it was taken, its runs depend on
the voice alone and can be made before their frames, and the mouth sits on the face at every angle.
"""
