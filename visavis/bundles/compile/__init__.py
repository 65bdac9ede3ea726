"""From a bundle's graph to a TensorRT plan: recipes, graph surgery, precision, compiler, cache."""
