"""Between the network and the doors: TLS, what every answer says, connections that hold others up.

`self_signed`: a certificate of our own, where no other is given.
`tls`: the certificate that is shown, read anew when it changes.
`headers`: security headers of every answer, and the sign of life.
`patience`: how long a connection may keep us waiting, and how many there may be.
`server`: how uvicorn serves the application, with all of that.
"""
