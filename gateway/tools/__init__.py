"""Tools that the language model calls while it answers: who does them, and within which limits.

`offers`: what may be called, a call, and the choice between them.
`rounds`: what one answer has called, round by round, and what came of it. Pure.
`doing`: who does the calls of one session, and that they end with whom they are for.
`mcp_servers`: tools of the gateway's own: servers of the Model Context Protocol.
"""
