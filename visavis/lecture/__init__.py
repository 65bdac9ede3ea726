"""A whole script to one video, in parts that survive an interruption."""
