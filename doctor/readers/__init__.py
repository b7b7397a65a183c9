"""Readers: from a target to facts. They read files and metadata, import nothing of the target, and never raise."""
