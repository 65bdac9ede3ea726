"""What a face does besides speaking, as coefficients over time. Pure; a function of seed and frame.

- `motion`: what never stops, whatever the talk does: sway, breath, blinks, a glance now and then.
- `blinks`: how the lids fall and rise.
- `gaze`: where the eyes rest while somebody is thought for or spoken to.
- `attention`: how a listener and a thinker look: nods, small smiles, a look aside.
- `accents`: movements that go with something said: nods, brows, smiles, blinks.
- `expressions`: what an emotion or a style does to the face, as facial actions.
"""
