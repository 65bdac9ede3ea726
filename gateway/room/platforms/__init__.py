"""Chats of platforms, each by its own protocol and none of their libraries.

`connection`: what an adapter is; keeps one connected, and tells how it stands.
`twitch`: IRC over a WebSocket; reads without an account.
`bilibili`: the open platform's HTTP calls and its binary WebSocket.
`youtube`: the Data API, asked as often as it says.
"""
