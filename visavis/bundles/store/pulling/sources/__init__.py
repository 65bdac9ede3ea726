"""Where archives come from: each kind of source turns its key into something to download.

`resolver`: one entrance to all kinds.
`remote`: what a source resolves to; files of a model hub.
`pypi`: wheels and sdists on the user's package indexes.
`npm`: tarballs on the user's npm registry.
"""
