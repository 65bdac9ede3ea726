"""Going live: one session's face to many, by the protocols that others speak.

`media`: what leaves a session: pictures as the face encoded them, sound encoded once for all.
`hls`: it as segments for phones.
`rtmp`: that protocol, as a publisher speaks it.
`push`: broadcasts to platforms and servers.
`live`: all of it as a sink of the session.
`sdp`: bodies and headers of WHIP and WHEP.
`routes_broadcasts`: the API of broadcasts.
`routes_hls`: HLS for viewers.
`routes_webrtc`: WHEP for viewers, WHIP for a microphone that is elsewhere.
"""
