"""Session descriptions (SDP) as others send them: bounded, before aiortc reads them. Pure."""

from __future__ import annotations

import re

from visavis.serving.errors import InvalidInputError
from visavis.wire.media import VideoCodec

LONGEST_SDP = 200_000
"""Characters; browsers have some ten thousand."""
# Each candidate is tried from every address of ours, every section gets parts of its own, and each
# codec a copy of the feedback that all of them want. Chromium with a camera beside the face's
# pictures offers some 50 codecs and 100 lines of feedback, twice that on machines that decode more.
_MOST_LINES = {
    "a=candidate:": 100,
    "m=": 8,
    "a=rtpmap:": 150,
    "a=rtcp-fb:": 300,
    "a=fmtp:": 300,
    "a=ssrc": 200,
}

_MIME_TYPES = {"video/h264": VideoCodec.H264, "video/vp8": VideoCodec.VP8}


def bounded(sdp: str) -> str:
    """A description whose lines end as they are to, of which there are not too many.

    Raises InvalidInputError.
    """
    if len(sdp) > LONGEST_SDP:
        raise InvalidInputError(f"sdp: {len(sdp)} characters are more than {LONGEST_SDP}")
    # Whatever the parser takes for the end of a line shall be one here.
    lines = sdp.splitlines()
    for beginning, most in _MOST_LINES.items():
        count = sum(line.startswith(beginning) for line in lines)
        if count > most:
            raise InvalidInputError(f"sdp: {count} lines of {beginning} are more than {most}")
    return "".join(f"{line}\r\n" for line in lines)


def negotiated_codec(sdp: str) -> VideoCodec:
    """Codec of the first payload type of the video section. Raises InvalidInputError."""
    section = sdp.partition("m=video ")[2].partition("\nm=")[0]
    if section:
        payload_type = section.split()[2]
        found = re.search(rf"^a=rtpmap:{re.escape(payload_type)} ([^/\s]+)/", section, re.M)
        codec = _MIME_TYPES.get(f"video/{found[1].lower()}") if found else None
        if codec is not None:
            return codec
    raise InvalidInputError("sdp: neither H264 nor VP8 is offered for the video")
