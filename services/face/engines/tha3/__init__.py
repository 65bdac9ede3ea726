"""THA3, "Talking Head(?) Anime from a Single Image 3": networks pose a drawn character.

- `engine`: one session, and what all of them share.
- `characters`: the pictures, and what is asked of one.
- `network`: the runs, and what a face does in the 45 numbers that the networks understand.
"""
