"""What the user got wrong, in one line."""


class ConfigError(ValueError):
    """A configuration value that cannot be used.

    The text names the key, what was found there and what was expected, so that a command can print
    it as it is and leave with status 2.
    """

    def __init__(self, key: str, found: object, expected: str) -> None:
        super().__init__(key, found, expected)
        self.key = key
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.key}: found {self.found!r}, expected {self.expected}"


class PredictError(ValueError):
    """A record that cannot be read or predicted; the text is one line that says why."""
