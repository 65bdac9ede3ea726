"""What every serving process stands on.

`settings`: flags, environment and file, in that order of precedence.
`runtime`: runs one service: load, warm, serve, drain.
`lease`: who holds a slot, and the life of one Attach stream.
`discovery`: how a service tells that it is there, and how others find it.
`errors`: typed errors, and the one table that maps them to gRPC status codes.
`interceptor`: around every gRPC call: errors become status codes, the call is measured.
`starting`: what a service is busy with while it starts.
`heartbeat`: a process' sign of life to whoever started it.
`supervision`: work that runs for as long as its process.
`logs`: JSON logs that carry session and turn.
`metrics`: every metric of platform and services, with its buckets.
`aiortc_private`: what is used of aiortc without its being public.
"""
