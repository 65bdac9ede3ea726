"""A network that paints mouths, trained on pictures of nobodies that our own heads are drawn in.

- `layout`: what the network is shown and told
- `crops`: where in a picture
- `people`: endless nobodies, out of the heads that ship
- `pictures`: draws them
- `network`: what is made of them
- `train`: fits the network and exports it
"""
