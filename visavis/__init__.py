"""What the services and the gateway stand on, the bundles of weights, the client, and the tools.

`wire`: chunks and the bus that carries them (`v1` is generated from the protos).
`serving`: what every serving process stands on.
`engine`: one network on one device behind one interface.
`bundles`: weights, where they come from and what is made of them.
`client`: the gateway's public API, for programs.
`tools`: the command line, benchmarks, the one-machine stack.
`styles`: how something is said, and its tags in an answer's text.
`formulas`: LaTeX as people write it on a line, for captions and voices.
`arkit`: the names of a face's 52 blendshapes, and their two orders.
`mel`: mel scales and their triangles, for every network that listens in mel bands.
`h264`: messages within a stream of pictures.
`synthetic`: what files and streams say of themselves.
`voice_bytes`: a voice as bytes while it is spoken, plain or compressed, and a file as samples.
`mp4`: a video file of pictures that are already encoded and sound.
`whole_file`: files that are there whole or not at all.
`large_pages`: memory of a process in large pages.
"""

import os

# ONNX Runtime tells Microsoft of each start and each network that it loads, and gives the machine a
# number in ~/.cache, unless this is said before it is imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
