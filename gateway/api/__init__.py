"""The doors: HTTP, two WebSockets for each session, and who may pass.

`app`: wires the parts together, and says how they are served.
`pages`: the page and its files, each page with those of its own version.
`access`: who may pass which door, foreign pages, bodies that are too large.
`state`: what the routes work on, and how they get at it.
`choices`: what a client may ask for, one validator for each option.
`schemas`: bodies of requests and answers.
`events`: what goes over the socket of events, both ways.
`problems`: errors as HTTP answers, in one table.
`description`: all of it as OpenAPI 3.0 tells it.
`uploads`: forms in memory, and work for as long as the client is there.
`routes/`: the doors of HTTP, one module for each thing that they are about.
`hub`: a session's events on their way to everybody who listens.
`sockets`: the two WebSockets, events and media.
"""
