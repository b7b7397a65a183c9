"""Remedies: one module a remedy, planned and undone by `flexdoctor.treatment`."""
