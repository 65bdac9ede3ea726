"""Where sound and pictures go, each in its own format.

`webrtc`: browsers, whose microphone comes back.
`descriptions`: what they tell of themselves (SDP), bounded.
`ice`: the servers by which they and we find each other.
`tracks`: packets on their way to one of them, and which sound belongs to which picture.
`broadcast`: viewers on a WebSocket.
`fmp4`: the fragments of mp4 that they get.
`blendshapes`: those who draw the face themselves.
`plain_sound`: programs that take sound alone, as samples.
`recording`: files.
`recording_folders`: where these lie, and what of them a gateway that was killed has left.
"""
