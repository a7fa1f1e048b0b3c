"""How operators are laid out on a core: dense layers, windows, pools and nests of loops, by instruction set.

The operators (`fuse2c/ops/`) choose among these; nothing here knows an operator by name.
"""
