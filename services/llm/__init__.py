"""The language model: a conversation in, the answer out as it is made.

`settings`: which backend, how long and how lively answers are, the persona.
`prompt`: the conversation, as much of it as fits the token budget.
`passages`: of the operator's texts, told with the question that they fit.
`backends/`: the engines an answer may come from.
`tools`: what the model may call, and its calls out of an answer.
`gate`: which request may be at the model now.
`text_stream`: raw pieces to whole characters without markdown or LaTeX.
`blocks`: code and tables, which are shown and not said.
`loop_guard`: an answer that goes round in circles is ended.
`answer_text`: these three, for one answer, begun here or elsewhere.
`generator`: all of that, from request to text pieces.
`session`: an attached session, whose answers go to the bus.
`servicer`: the service on the wire.
"""
