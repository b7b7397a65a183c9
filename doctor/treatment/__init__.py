"""Treatment: a fix is planned, shown, journalled, applied, verified, and can be undone byte for byte."""
