"""Settings of all tests."""

from hypothesis import settings

settings.register_profile("slabsweep", deadline=None)  # machines that run tests may be busy
settings.load_profile("slabsweep")
