"""`python -m flexdoctor` is the same program as the `flexdoctor` script."""

from flexdoctor.cli import main

if __name__ == "__main__":
    main()
