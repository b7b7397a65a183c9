"""Renderings of a report: one module a format."""
