"""What stops a synth: a choice that breaks its rule."""


class ConfigInvalid(ValueError):
    """A context value breaks its rule; raised while the app is built, so that the synth stops.

    Correct the value that the message names. `name`, `rule` and `value` hold its parts.
    """

    def __init__(self, *, name: str, rule: str, value: object) -> None:
        self.name = name
        self.rule = rule
        self.value = value
        super().__init__(f"{name} must be {rule}, got {value!r}")
