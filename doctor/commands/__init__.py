"""The commands of the command line, one module each; `flexdoctor.cli` registers them."""
