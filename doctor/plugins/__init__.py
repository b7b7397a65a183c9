"""Checks that other distributions bring, by entry points of the group `flexdoctor.checks`.

Only those are loaded that the configuration or `--plugin` names, and none of them in the doctor's own process: each
runs in a child of its own with a time limit, so that what raises, hangs, exits, prints or eats memory costs only
itself.
"""
