"""Where a turn's time went.

`stopwatch`: notes what happens in a session's newest turn, and measures it.
`ledger`: the moments of one turn.
`spans`: those as pieces of work, and what was nobody's work.
`traces`: turns as OpenTelemetry's traces, where these are wanted.
`records`: what clients are shown of the last turns.
"""
