"""A live room: many write, one avatar answers, and it is known what became of each comment.

`choosing/`: which comment is answered next, and what else is said; pure.
`platforms/`: chats of Twitch, Bilibili and YouTube as comments.
`schemas`: what the doors take and tell.
`room`: a room bound to one session.
`views`: a room as its operator sees it.
`moving`: a room that goes to another gateway with its session.
`rooms`: all rooms of a gateway.
`routes`: the doors, HTTP and a WebSocket.
"""
