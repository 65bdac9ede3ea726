"""A guess at the tokens of a text, checked by the decoder in one step."""

from collections.abc import Sequence


def agreed(best: Sequence[int], guess: Sequence[int]) -> int:
    """How many tokens of `guess` the decoder would have said itself.

    best: its likeliest token after the start and after each token of the guess.
    """
    for i, (own, guessed) in enumerate(zip(best, guess, strict=False)):
        if own != guessed:
            return i
    return len(guess)
