"""Where archives come from: each kind of source turns its key into something to download."""
