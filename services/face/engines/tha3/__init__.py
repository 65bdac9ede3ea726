"""THA3, "Talking Head(?) Anime from a Single Image 3": networks pose a drawn character.

`characters.py` keeps the pictures, `pose.py` turns what the face does into the 45 numbers that the
networks understand, `network.py` runs them, `engine.py` is one session and all of them.
"""
