"""The doors of HTTP, by what they are about.

`sessions`: sessions, text, interruption, turns.
`media`: WebRTC and recordings.
`catalog`: voices and avatars.
`cache`: what can be said without a language model.
`operation`: services, metrics, health.
"""
