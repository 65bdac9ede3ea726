"""Compiled plans: what is known of one, where it is kept, and whether it still may be used.

`record`: what is known of a compiled plan, its key in the cache, and its sidecar file.
`cache`: compiled plans and timing caches on disk, by their keys.
`freshness`: whether a cached plan still is what its bundle asks for.
`findings`: what lower precision was measured to cost, and whether it may be built after that.
"""
