"""What programs ask of a session beside a conversation.

`sayings`: texts that wait to be said as they stand, pure.
`routes_say`: the door for them.
`sockets`: sound alone, as plain samples, both ways.
"""
