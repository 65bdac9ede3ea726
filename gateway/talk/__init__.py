"""Who speaks, which answer counts, what was heard, in one session.

`conversation`: the turn state machine, pure: events in, actions out.
`actions`: what it may ask for.
`turn`: the one record of an answer on its way.
`history`: the conversation as the language model reads it, and how much of an answer was heard.
`words`: what spoken words amount to: the same question, a listener's "uh-huh", our own words.
`reading`: what the language model reads of it ahead.
`speculation`: how many answers are prepared before anybody has asked.
`speech_over`: echo, cough or interruption: what a sound over an answer is.
`echo`: whether it is our own voice out of a loudspeaker.
`interruption`: what becomes of the voice then, and how long that took.
`microphone`: who holds it, and which packets travel together.
`rtp_sound`: RTP packets as plain sound, with something in place of what is lost.
"""
