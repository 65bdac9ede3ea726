"""Chats of platforms, each by its own protocol and none of their libraries.

`connection`: what an adapter is; keeps one connected, and tells how it stands.
"""
