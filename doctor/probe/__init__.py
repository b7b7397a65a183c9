"""The live run: a script for the target's interpreter, and the runner that survives whatever becomes of it."""
