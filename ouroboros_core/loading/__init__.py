"""Loading of models: pairs, the embedded pair, manifests, devices, checks of files."""
