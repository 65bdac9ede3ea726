"""Voice and mel to pictures of somebody who speaks, and who lives while nobody does.

- `settings`: what an operator may choose.
- `servicer`: the service on the wire, and the deployable.
- `session`: one attached session on the bus, at most a second ahead of what is heard.
- `drawing`: one tick for all of them, and the lanes that draw.
- `schedule`: which pictures are made next.
- `studio`: what is loaded once and serves every session.
- `kept_loops`: idle life that was drawn, on disk until the next start.
- `limits`: what a process may take that opens a stranger's file.
- `compiled`: a command that compiles what draws, ahead of the service.

`lips/` say what the mouth does, `life/` what the rest of the face does, `avatar/` is what a face is
made of, `draw/` paints it, `engines/` are other ways to paint it, `audio2face/` is for clients of
NVIDIA's Audio2Face-3D.
"""
