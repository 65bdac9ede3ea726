""" "Talking Head(?) Anime from a Single Image 3": networks that pose a drawn character.

`graph`: the networks as two ONNX graphs.
`making`: a bundle out of the published weights.
"""
