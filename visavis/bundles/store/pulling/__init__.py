"""How bundles come onto this machine: what asks the network, and what is made of what it gives.

`puller`: brings bundles here, each of them complete or not at all.
`build`: makes one bundle in a folder of its own.
`download`: resumable downloads, and what a pull reports.
`sources`: where archives come from.
`reach`: whether addresses answer.
`web`: the HTTP client: the user's own pip configuration, certificates, proxy.
"""
