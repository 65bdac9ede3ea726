"""What is made of a visitor's notes, and of the stack's own: figures, told with their spread.

- `turn_figures`: from the end of a question to its answer, and which set's figures come first
- `hidden`: what of that was not hidden in the pause, stage by stage
- `word_errors`: what was heard otherwise than it was said
- `lips`: lips that meet where the voice says so
- `counters`: what the stack's own metrics rose by
- `processes`: CPU time and memory of the stack
- `reliability`: whether a probability came true as often as it said
- `intervals`: how exact a median or a ratio is
- `report`, `tables`: figures with their spread, as JSON and printed
"""
