"""How a live room keeps up with what its viewers write.

`replay`: viewers who were never there: what they write, and when, out of a seed.
`command`: `visavis bench room`, through a running stack.
"""
