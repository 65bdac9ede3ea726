"""Who is let in, who waits, and for how long.

`line`: places, first come first served, and how one stands.
`entrance`: sessions are made here, at once or when a place's turn has come.
"""
