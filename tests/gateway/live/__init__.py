"""Going live, by the protocols that others speak."""
