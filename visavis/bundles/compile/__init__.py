"""From a bundle's graph to a TensorRT plan.

`targets`: which compiler, and which GPU it compiles for.
`survey`: which plans there are to build, and all of them compiled as a check.
`float_graphs`: from a bundle's files to the ONNX graph of a recipe in 32 bits.
`surgery`: passes that make a published graph one that TensorRT compiles.
`precision`: lower precisions, written into the graph.
`graphs`: the graph of a recipe in one precision, as it is handed to the compiler.
`compiler`: compiles an ONNX graph into a plan.
`network`: an ONNX graph as TensorRT sees it, with inputs and outputs checked.
`builder_api`: the part of TensorRT that compiling takes, as types.
`build_progress`: how far a build is.
`plan_record`: what is known of a compiled plan, its key in the cache, and its sidecar file.
`cache`: compiled plans and timing caches on disk, by their keys.
`freshness`: whether a cached plan still is what its bundle asks for.
`findings`: what lower precision was measured to cost, and whether it may be built after that.
`builder`: graph, compiler and cache put together; fills the keys.
`sources`: the plans of a bundle's model, for engines.
"""
