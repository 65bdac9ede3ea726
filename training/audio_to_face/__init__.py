"""Mouth shapes from sound: the network that the face falls back on.

- `sentences`: what is said to train on, and what is kept aside
- `corpus`: sentences spoken, with a mouth shape for every hundredth of a second
- `train`: the network, dilated convolutions over log-mel, fitted and exported
- `evaluate`: how often it is right on sentences that it has not heard
"""
