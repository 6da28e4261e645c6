"""The state machine: `build.py` is the picture, `edges.py` the ways, `nodes.py` the work."""
