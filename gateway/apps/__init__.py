"""What programs ask of a session beside a conversation.

`sayings`: texts that wait to be said as they stand, pure.
`speech`: speech that a client brings, pure.
`unasked`: opens the turns in which both are said.
`routes`: the doors for texts, and for what was said as subtitles.
`sockets`: sound alone, as plain samples, both ways; and speech that is brought.
"""
