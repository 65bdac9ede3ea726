"""`visavis bench load`: more and more visitors at once, and how many are served as one is.

docs/load.md tells what is measured. Pure, the clock an argument:

- `schedule`: what each visitor asks, and when
- `playout`: gaps and late pictures, as a player would have had them
- `ledger`: whose words reached whom
- `exchange`: one question, what came of it, and its figures
- `results`: what one step came to
- `knee`: up to how many visitors all is well, and which number to try next
- `pages`: tables and the picture

At the edge:

- `guest`: one visitor, keeping a schedule
- `client`: a process of visitors, a program of its own
- `killer`: processes of the stack that are killed meanwhile
- `fleet`: these processes, seen from the one that measures
- `steps`: one step after the other, the stack watched meanwhile
- `command`: its options, and what it tells
"""
