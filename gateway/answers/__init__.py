"""What can be said without a language model.

`book`: the answers that an operator has written down.
`questions`: when two questions are the same one.
`cache`: finds an answer, in the book or learned before.
`sharing`: what one gateway has learned, all of them know.
`answering`: begins each answer of a session, from there or with the language model.
`prerender`: has replicas make the sound before anybody waits for it.
"""
