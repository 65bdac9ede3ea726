"""Wyoming, the protocol of Home Assistant's voice assistants: one TCP port, off unless asked for.

`events`: the frames, and how much of one is read.
`answering`: what this server can do; sound to text, text to sound, a question to its answer.
`remembering`: what was said in a conversation, for as long as it may go on.
`connection`: one client, and what it asks for.
`server`: who may come, and how many at once.
"""
