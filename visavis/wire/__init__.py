"""What stages say to each other, and how it gets there.

`subjects`: every NATS subject, and the kinds of chunks.
`media`: the chunks, as plain values and as bytes.
`fields`: how a dataclass's fields travel in its protobuf message.
`json_objects`: what of them is JSON.
`levels`: what of all this processes of another version understand.
`clock`: the only place where the platform reads the time.
`idle_order`: in which order the segments of idle life are seen.
`permissions`: who may say and hear which of them.
`bus`: typed, sequenced, bounded chunks over core NATS.
`bucket`: what outlives them, by name, on the bus.
`shelf`: a process's own copies of it, on its disk, kept alike.
"""
