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
`plans/`: what is known of compiled plans, where they are kept, and whether they still may be used.
`builder`: graph, compiler and cache put together; fills the keys.
`sources`: the plans of a bundle's model, for engines.
"""
