"""Warnings of the library."""


class InputWarning(UserWarning):
    """What was given can be used, but something about it is odd: its text says what."""
