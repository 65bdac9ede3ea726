"""Who is let in, who waits, and for how long.

`line`: places, first come first served.
`departures`: when the sessions that are open will have ended, by how long others lasted.
`entrance`: sessions are made here, at once or when a place's turn has come.
"""
