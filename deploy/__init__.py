"""What runs visavis elsewhere than on one desk, and looks at it there.

- `container`: what an image's container does beside its service
- `monitoring/`: what an operator sees: dashboards, alerts, the list of metrics

What lies in the repository and is written by programs:

- `client_types`: the types of the page's client
- `events_page`: docs/events.md
- `vendor`: modules of others that the page ships
- `chromium`: which browser takes pictures and runs tests
"""
