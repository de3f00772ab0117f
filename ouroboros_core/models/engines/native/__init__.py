"""The forward pass in C++ (decoder.cpp), compiled on the user's machine: `build` makes the library,
`decoder` calls it."""
