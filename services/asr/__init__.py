"""Speech recognition: sound in, transcripts and ends of turn out.

`settings`: thresholds and waits, recognisers of one's own.
`sound`: any rate to 16 kHz, the recent past, which frames are as quiet as the room.
`hearing/`: the networks, and who hears which language.
`turns/`: whether the visitor has finished, and the text so far.
`utterance`: what is asked of the networks and told to the client.
`stream`: one session's listener, which runs no network itself.
`session`: an attached session, from the microphone through the networks to the bus.
`servicer`: the service on the wire.
`riva/`: the same for clients of NVIDIA's Riva.
"""
