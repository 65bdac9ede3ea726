"""Texts of the operator's that answers are made of: a folder, read into passages and searched.

`passages`: a file's text, cut into passages under their headings. Pure.
`search`: the passages that a question asks for, by BM25, and none where nothing fits. Pure.
`folder`: the folder, read at the start and whenever it changes.

`python -m gateway.knowledge` tells what a folder finds, and how well.
"""
