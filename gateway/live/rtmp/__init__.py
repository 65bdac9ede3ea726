"""RTMP as a publisher speaks it (Adobe's RTMP specification 1.0), on one connection of asyncio.

`amf`: values of commands as bytes (AMF0).
`chunks`: messages in chunks, both ways.
`flv`: pictures and sound as FLV tags have them.
`client`: from the handshake to the end of a published stream.
"""
