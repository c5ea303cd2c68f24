"""The one error a person sees: what was wrong, where, and what to do about it."""


class BuildError(Exception):
    """The image could not be built; nothing of it was left in the images directory."""
