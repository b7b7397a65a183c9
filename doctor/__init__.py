"""flexdoctor: finds the first broken link between you and compiled flex_attention on Ascend NPUs."""

__version__ = "0.1.0"
