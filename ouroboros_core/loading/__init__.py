"""Getting models: pairs, the embedded one, manifests, devices, checks of what a file is."""
