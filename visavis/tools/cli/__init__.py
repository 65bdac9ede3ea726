"""The `visavis` command.

- `systems`: on which it runs, told before anything else is imported
- `leaving`: Ctrl-C while a command is being imported
- `main`: every command, mounted
- `up`: `visavis up`, the whole stack and its table
- `running_gateway`: the gateway that a command talks to, started where none answers
- `ask`: `visavis ask`, one question and its answer
- `timeline`: `visavis timeline`, where a turn's time went
- `script`: `visavis script`, a text file spoken as one video
- `cache`: `visavis cache`, answers that are known beforehand
- `avatar`: `visavis avatar`, faces of one's own
- `models`: `visavis models`, bundles listed, pulled, verified
- `bundle`: `visavis bundle`, bundles made of one's own weights
- `doctor`, `doctor_checks`: `visavis doctor`, its report and what it looks at
- `engine`: `visavis engine`, plans for a GPU, networks for a Triton server
"""
