"""What processes of another version understand.

While a fleet is updated, old and new processes work together for minutes or days. Each tells the
others its level (`visavis/serving/discovery.py`), and is not asked for what came with a later one,
which it would refuse, or drop. Fields whose absence says the right thing need no level. Whoever
adds what does need one counts `LEVEL` up, and names here what came with it.
"""

BEFORE = 0
"""Of processes that tell none: they are of versions before there were any."""

SMALLER_PICTURES = 1
"""A face takes `SetBitrate`; earlier ones ended the lease."""
GOES_ON = 1
"""A turn that another replica began goes on: `ResumeVoice`, `ResumeFace`, `BeginTurn.run`. Earlier
ones, back to 30 November, know that as well, and do not say so; those before ended the lease."""

LEVEL = 1
"""Ours."""
