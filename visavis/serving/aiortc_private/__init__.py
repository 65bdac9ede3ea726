"""Everything of aiortc that visavis uses without its being public, in one place.

aiortc's public interface plays and records media; it does not say when a browser has lost the
picture, what its reports tell, hand on a packet as it comes in, or send one as it is made.

- `known`: what of it is used; `check` looks whether it is as it was.
- `incoming`: packets as they come in.
- `outgoing`: packets that leave as they are made, and the reports about them.
"""
