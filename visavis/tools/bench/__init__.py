"""The measuring parts of `visavis bench`: a visitor made of sound files, and the figures."""
